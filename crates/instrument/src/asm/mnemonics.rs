//! Which operand each instruction writes, by its mnemonic.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Harmless,
    ReadsOnly,
    /// The last operand is written (AT&T order).
    WritesLast,
    /// Whichever operand is memory is written.
    WritesEither,
    Unknown,
}

pub struct Class {
    /// The mnemonic without its size suffix.
    pub name: &'static str,
    pub size_bytes: u32,
    pub access: Access,
}

const HARMLESS: &[&str] = &[
    "nop",
    "pause",
    "rdtsc",
    "rdtscp",
    "cpuid",
    "lfence",
    "ud2",
    "int3",
    "rdrand",
    "rdseed",
    "xgetbv",
    "endbr64",
    "cld",
    "std",
    "clc",
    "stc",
    "cmc",
    "vzeroupper",
    "vzeroall",
    "emms",
    "jmp",
    "je",
    "jne",
    "jz",
    "jnz",
    "ja",
    "jb",
    "jae",
    "jbe",
    "jg",
    "jl",
    "jge",
    "jle",
    "jc",
    "jnc",
    "js",
    "jns",
    "lea",
    "leaq",
    "leal",
    "prefetchw",
    "prefetcht0",
    "prefetcht1",
    "prefetcht2",
    "prefetchnta",
    "rdpmc",
    "rdpkru",
    "wrpkru",
    "rdfsbase",
    "rdgsbase",
    "hlt",
    "lahf",
    "sahf",
    "cltq",
    "cqto",
    "cltd",
    "nopw",
    "nopl",
    "serialize",
    "tpause",
    "rdpid",
];

const WRITES_LAST: &[&str] = &[
    "mov", "add", "sub", "and", "or", "xor", "inc", "dec", "neg", "not", "adc", "sbb", "shl",
    "shr", "sar", "sal", "rol", "ror", "rcl", "rcr", "bts", "btr", "btc", "xadd", "cmpxchg",
    "bswap", "pop", "movnti", "movabs", "movbe", "shld", "shrd",
];

const VECTOR_MOVES: &[(&str, u32)] = &[
    ("movntdq", 16),
    ("movntps", 16),
    ("movntpd", 16),
    ("movntq", 8),
    ("movdqa", 16),
    ("movdqu", 16),
    ("movaps", 16),
    ("movups", 16),
    ("movapd", 16),
    ("movupd", 16),
    ("movsd", 8),
    ("movss", 4),
    ("vmovntdq", 0),
    ("vmovntps", 0),
    ("vmovntpd", 0),
    ("vmovdqa", 0),
    ("vmovdqu", 0),
    ("vmovaps", 0),
    ("vmovups", 0),
    ("cmpxchg8b", 8),
    ("cmpxchg16b", 16),
    ("stmxcsr", 4),
    ("fnstcw", 2),
    ("fstcw", 2),
    ("sgdt", 10),
    ("sidt", 10),
];

const READS_ONLY: &[&str] = &[
    "cmp", "test", "bt", "bsf", "bsr", "popcnt", "lzcnt", "tzcnt", "imul", "mul", "div", "idiv",
    "push", "crc32", "ucomisd", "ucomiss", "ldmxcsr", "fldcw", "pdep", "pext", "mulx", "adcx",
    "adox", "andn", "movz", "movs", "movzx", "movsx", "cvtsi2sd", "sqrtsd", "verw", "lar", "lsl",
];

fn suffixed(mnemonic: &str, known: &'static str) -> Option<u32> {
    match mnemonic.strip_prefix(known)? {
        "" => Some(0),
        "b" => Some(1),
        "w" => Some(2),
        "l" => Some(4),
        "q" => Some(8),
        _ => None,
    }
}

pub fn classify(mnemonic: &str) -> Class {
    let class = |name, size_bytes, access| Class {
        name,
        size_bytes,
        access,
    };
    if let Some(name) = HARMLESS.iter().find(|name| **name == mnemonic) {
        return class(name, 0, Access::Harmless);
    }
    if let Some((name, size)) = VECTOR_MOVES.iter().find(|(name, _)| *name == mnemonic) {
        return class(name, *size, Access::WritesLast);
    }
    if let Some(size) = suffixed(mnemonic, "xchg") {
        return class("xchg", size, Access::WritesEither);
    }
    for name in WRITES_LAST {
        if let Some(size) = suffixed(mnemonic, name) {
            return class(name, size, Access::WritesLast);
        }
    }
    for name in READS_ONLY {
        let extended = matches!(*name, "movz" | "movs") && mnemonic.starts_with(name);
        if extended && mnemonic.len() == name.len() + 2 {
            return class(name, 0, Access::ReadsOnly);
        }
        if let Some(size) = suffixed(mnemonic, name) {
            return class(name, size, Access::ReadsOnly);
        }
    }
    if mnemonic.starts_with("set") && mnemonic.len() <= 6 {
        return class("set", 1, Access::WritesLast);
    }
    class("unknown", 0, Access::Unknown)
}
