//! Assembly as real programs write it.

use super::effects;
use crashpoint_ir::AssemblyEffect;

fn flush(name: &str) -> Vec<AssemblyEffect> {
    vec![AssemblyEffect::Flush {
        name: name.into(),
        argument: 0,
    }]
}

fn store(argument: u32, size_bytes: u32, locked: bool) -> Vec<AssemblyEffect> {
    vec![AssemblyEffect::Store {
        argument,
        size_bytes,
        locked,
        nontemporal: false,
    }]
}

#[test]
fn flushes_are_known_in_every_encoding() {
    assert_eq!(effects("clflush $0", "*m,~{memory}"), flush("clflush"));
    assert_eq!(effects("clflush $0", "=*m,*m,~{dirflag}"), flush("clflush"));
    assert_eq!(
        effects(".byte 0x66; clflush $0", "=*m,*m"),
        flush("clflushopt")
    );
    assert_eq!(effects(".byte 0x66; xsaveopt $0", "=*m,*m"), flush("clwb"));
    assert_eq!(effects(".byte 0x66\n\txsaveopt $0", "*m"), flush("clwb"));
    assert_eq!(effects("data16 clflush $0", "*m"), flush("clflushopt"));
    assert_eq!(effects("clwb ($0)", "r,~{memory}"), flush("clwb"));
    assert_eq!(effects("clflushopt ($0)", "r"), flush("clflushopt"));
    assert_eq!(effects("CLWB $0", "*m"), flush("clwb"));
}

#[test]
fn fences_are_known_as_text_and_as_bytes() {
    let fence = |name: &str| vec![AssemblyEffect::Fence { name: name.into() }];
    assert_eq!(effects("mfence", "~{memory}"), fence("mfence"));
    assert_eq!(effects("sfence", "~{memory},~{dirflag}"), fence("sfence"));
    assert_eq!(
        effects(".byte 0x0f, 0xae, 0xf8", "~{memory}"),
        fence("sfence")
    );
    assert_eq!(effects("lfence", "~{memory}"), vec![]);
}

#[test]
fn several_instructions_keep_their_order() {
    let text = "mfence\n\tclflush $0\n\tmfence";
    let names: Vec<_> = effects(text, "=*m,*m,~{memory}")
        .into_iter()
        .map(|effect| match effect {
            AssemblyEffect::Fence { name } | AssemblyEffect::Flush { name, .. } => name,
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["mfence", "clflush", "mfence"]);
}

#[test]
fn exchanges_store_even_where_the_operand_is_declared_input_only() {
    // asm("xchgq %0, %1" : "=r"(v) : "m"(*p), "0"(v))
    assert_eq!(
        effects("xchgq $0, $1", "=r,*m,0,~{memory}"),
        store(0, 8, true)
    );
    assert_eq!(
        effects("xchgb $0, $1", "=q,=*m,0,*m,~{memory}"),
        store(0, 1, true)
    );
    assert_eq!(effects("xchg $0, $1", "=r,=*m,0,*m"), store(0, 0, true));
}

#[test]
fn locked_operations_store() {
    assert_eq!(
        effects("lock; xaddl $0, $1", "=r,=*m,0,*m"),
        store(0, 4, true)
    );
    assert_eq!(
        effects("lock cmpxchgq $2, $1", "={ax},=*m,r,0,*m"),
        store(0, 8, true)
    );
    assert_eq!(effects("lock\n\tincq $0", "=*m,*m"), store(0, 8, true));
    assert_eq!(
        effects("lock cmpxchg16b $0", "=*m,={dx},={ax},*m"),
        store(0, 16, true)
    );
}

#[test]
fn plain_and_nontemporal_moves_store() {
    assert_eq!(effects("movq $1, $0", "=*m,r"), store(0, 8, false));
    assert_eq!(
        effects("movl $1, ($0)", "r,r,~{memory}"),
        store(0, 4, false)
    );
    let nontemporal = vec![AssemblyEffect::Store {
        argument: 0,
        size_bytes: 8,
        locked: false,
        nontemporal: true,
    }];
    assert_eq!(effects("movntiq $1, $0", "=*m,r"), nontemporal);
}

#[test]
fn harmless_assembly_has_no_effect() {
    for (text, constraints) in [
        ("", "~{memory},~{dirflag},~{fpsr},~{flags}"),
        ("pause", "~{memory}"),
        ("rep; nop", "~{memory}"),
        ("rdtsc", "={ax},={dx}"),
        ("cpuid", "={ax},={bx},={cx},={dx},0,2"),
        (
            "rolq $$3, %rdi ; rolq $$13, %rdi\n\trolq $$61, %rdi ; rolq $$51, %rdi\n\t\
             xchgq %rbx,%rbx",
            "={dx},{ax},0,~{cc},~{memory}",
        ),
        ("bsrq $1, $0", "=r,r"),
        ("movq %fs:0, $0", "=r"),
    ] {
        let unknown_only = effects(text, constraints);
        if text.contains("%fs") {
            // A segment access is memory that we cannot name, and only read.
            assert!(unknown_only.len() <= 1);
        } else {
            assert_eq!(unknown_only, vec![], "{text}");
        }
    }
}

#[test]
fn what_is_not_understood_is_opaque() {
    for (text, constraints) in [
        ("frobnicate $0", "=*m,*m"),
        ("rep movsb", "={di},={si},={cx},0,1,2,~{memory}"),
        ("syscall", "={ax},0,{di},~{memory}"),
        ("movq $1, 8($0)", "r,r,~{memory}"),
        (".byte 0x0f, 0x01, 0xd5", "~{memory}"),
    ] {
        let found = effects(text, constraints);
        assert!(
            matches!(found.as_slice(), [AssemblyEffect::Unknown { .. }]),
            "{text}"
        );
    }
}

#[test]
fn the_first_dialect_is_taken() {
    assert_eq!(
        effects("$(clflush $0$|clflush $0$)", "*m"),
        flush("clflush")
    );
}

#[test]
fn loads_are_told() {
    let load = vec![AssemblyEffect::Load {
        argument: 0,
        size_bytes: 8,
    }];
    assert_eq!(effects("movq $1, $0", "=r,*m"), load);
}
