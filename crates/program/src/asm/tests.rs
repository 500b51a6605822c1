//! Assembly as real programs write it.

use super::{AddressOperand, Argument, Assembly, Effect, Length};
use crashpoint_abi::record::{FenceKind, FlushKind};

const POINTER: Argument = Argument {
    size_bytes: 8,
    element_bytes: None,
};

fn to(bytes: u64) -> Argument {
    Argument {
        size_bytes: 8,
        element_bytes: Some(bytes),
    }
}

fn effects(text: &str, constraints: &str, arguments: &[Argument]) -> Vec<Effect> {
    Assembly {
        text,
        constraints,
        intel: false,
        arguments,
    }
    .effects()
}

fn at(argument: u32) -> AddressOperand {
    AddressOperand {
        argument,
        offset: 0,
    }
}

fn flush(kind: FlushKind) -> Vec<Effect> {
    vec![Effect::Flush { kind, place: at(0) }]
}

fn store(bytes: u64, locked: bool, nontemporal: bool) -> Vec<Effect> {
    vec![Effect::Store {
        place: at(0),
        length: Length::Bytes(bytes),
        locked,
        nontemporal,
    }]
}

const FLAGS: &str = "~{memory},~{dirflag},~{fpsr},~{flags}";

#[test]
fn flushes_are_found_in_every_encoding() {
    let both = format!("=*m,*m,{FLAGS}");
    let two = [to(1), to(1)];
    for (text, kind) in [
        ("clflush $0", FlushKind::Clflush),
        (".byte 0x66; clflush $0", FlushKind::Clflushopt),
        (".byte 0x66; xsaveopt $0", FlushKind::Clwb),
        ("data16 xsaveopt $0", FlushKind::Clwb),
    ] {
        assert_eq!(effects(text, &both, &two), flush(kind), "{text}");
    }
    assert_eq!(
        effects("clflushopt ($0)", &format!("r,{FLAGS}"), &[POINTER]),
        flush(FlushKind::Clflushopt)
    );
    assert_eq!(
        effects("clwb (%rax)\n\t", &format!("{{ax}},{FLAGS}"), &[POINTER]),
        flush(FlushKind::Clwb)
    );
    assert_eq!(
        effects(
            ".byte 0x66, 0x0f, 0xae, 0x30",
            &format!("{{ax}},{FLAGS}"),
            &[POINTER]
        ),
        flush(FlushKind::Clwb)
    );
    assert_eq!(
        effects(
            ".byte 0x66\n\t.byte 0x0f\n\t.byte 0xae\n\t.byte 0x3f",
            &format!("{{di}},{FLAGS}"),
            &[POINTER]
        ),
        flush(FlushKind::Clflushopt)
    );
}

#[test]
fn a_flush_of_an_unknown_place_is_unknown() {
    let found = effects("clflush (%r9)", FLAGS, &[]);
    assert!(matches!(found.as_slice(), [Effect::Unknown(_)]));
}

#[test]
fn fences_are_found_in_every_encoding() {
    let sfence = vec![Effect::Fence(FenceKind::Sfence)];
    let mfence = vec![Effect::Fence(FenceKind::Mfence)];
    assert_eq!(effects("sfence", FLAGS, &[]), sfence);
    assert_eq!(effects("\tSFENCE\n", FLAGS, &[]), sfence);
    assert_eq!(effects(".byte 0x0f, 0xae, 0xf8", FLAGS, &[]), sfence);
    assert_eq!(effects("mfence", FLAGS, &[]), mfence);
    assert_eq!(effects("lfence", FLAGS, &[]), vec![]);
    assert_eq!(
        effects("lock; addl $$0,0(%rsp)", FLAGS, &[]),
        vec![Effect::Fence(FenceKind::Locked)]
    );
}

#[test]
fn locked_operations_are_stores_whatever_their_constraints_say() {
    let bus = store(8, true, false);
    assert_eq!(
        effects("xchgq $0, $1", "=r,*m,0,~{memory}", &[to(8), POINTER]),
        bus
    );
    assert_eq!(
        effects(
            "lock; cmpxchgq $2, $1",
            "={ax},=*m,r,0,*m,~{memory}",
            &[to(8), POINTER, POINTER, to(8)]
        ),
        bus
    );
    assert_eq!(
        effects(
            "xchgb ${0:b}, $1",
            "=q,=*m,0,*m,~{memory}",
            &[to(1), POINTER, to(1)]
        ),
        store(1, true, false)
    );
    assert_eq!(
        effects("lock\n\tincl $0", "=*m,*m", &[to(4), to(4)]),
        store(4, true, false)
    );
    assert_eq!(
        effects(
            "lock xaddl $0, ($1)",
            "=r,r,0",
            &[
                POINTER,
                Argument {
                    size_bytes: 4,
                    element_bytes: None
                }
            ]
        ),
        store(4, true, false)
    );
}

#[test]
fn moves_to_memory_are_stores() {
    assert_eq!(
        effects("movq $1, $0", "=*m,r", &[to(8), POINTER]),
        store(8, false, false)
    );
    assert_eq!(
        effects("movnti $1, ($0)", "r,r,~{memory}", &[POINTER, POINTER]),
        store(8, false, true)
    );
    assert_eq!(
        effects("movntdq %xmm0, ($0)", "r,~{memory}", &[POINTER]),
        store(16, false, true)
    );
    assert_eq!(
        effects("vmovntdq %zmm0, ($0)", "r,~{memory}", &[POINTER]),
        store(64, false, true)
    );
    assert_eq!(
        effects("movb $$1, 16($0)", "r", &[POINTER]),
        vec![Effect::Store {
            place: AddressOperand {
                argument: 0,
                offset: 16
            },
            length: Length::Bytes(1),
            locked: false,
            nontemporal: false,
        }]
    );
}

#[test]
fn a_load_is_not_a_store() {
    assert_eq!(
        effects("movq $1, $0", "=r,*m", &[to(8)]),
        vec![Effect::Load {
            place: at(0),
            length: Length::Bytes(8)
        }]
    );
}

#[test]
fn repeated_stores_have_a_counted_length() {
    assert_eq!(
        effects(
            "rep stosb",
            "={di},={cx},{ax},0,1,~{memory}",
            &[POINTER, POINTER, POINTER]
        ),
        vec![Effect::Store {
            place: at(1),
            length: Length::Counted {
                argument: 2,
                unit: 1
            },
            locked: false,
            nontemporal: false,
        }]
    );
}

#[test]
fn harmless_statements_have_no_effect() {
    assert_eq!(effects("", FLAGS, &[]), vec![]);
    assert_eq!(effects("rep; nop", FLAGS, &[]), vec![]);
    assert_eq!(
        effects("cpuid", "={ax},={bx},={cx},={dx},0,2", &[POINTER; 2]),
        vec![]
    );
    assert_eq!(effects("rdtsc", "={ax},={dx}", &[]), vec![]);
    assert_eq!(effects("prefetcht0 ($0)", "r", &[POINTER]), vec![]);
    let valgrind = "rolq $$3,  %rdi ; rolq $$13, %rdi\n\trolq $$61, %rdi ; rolq $$51, %rdi\n\t\
                    xchgq %rbx,%rbx";
    let constraints = "={dx},{ax},0,~{cc},~{memory},~{dirflag},~{fpsr},~{flags}";
    assert_eq!(effects(valgrind, constraints, &[POINTER; 2]), vec![]);
    assert_eq!(effects("addq $1, $0", "=r,r,0", &[POINTER; 2]), vec![]);
}

#[test]
fn what_is_not_understood_is_unknown() {
    for text in [
        "frobnicate ($0)",
        "syscall",
        "call foo",
        "xsave ($0)",
        "enqcmd ($0), %rax",
    ] {
        let found = effects(text, &format!("r,{FLAGS}"), &[POINTER]);
        assert!(
            matches!(found.as_slice(), [Effect::Unknown(_)]),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn a_store_behind_a_jump_is_unknown() {
    let found = effects(
        "testl $1, $1\n\tjz 1f\n\tmovl $1, $0\n1:",
        "=*m,r",
        &[to(4), POINTER],
    );
    assert!(
        matches!(found.as_slice(), [Effect::Unknown(_)]),
        "{found:?}"
    );
}

#[test]
fn an_address_that_the_statement_computes_is_unknown() {
    let found = effects("movq %rbx, %rax\n\tclflush (%rax)", "{ax}", &[POINTER]);
    assert!(
        matches!(found.as_slice(), [Effect::Unknown(_)]),
        "{found:?}"
    );
}

#[test]
fn other_sections_do_not_run_here() {
    let text = "clflush $0\n.pushsection .fixup,\"ax\"\nmovq %rax, 0\n.popsection";
    assert_eq!(effects(text, "=*m", &[to(1)]), flush(FlushKind::Clflush));
}

#[test]
fn intel_syntax_has_the_destination_first() {
    let found = Assembly {
        text: "mov qword ptr [$0], $1",
        constraints: "r,r",
        intel: true,
        arguments: &[POINTER, POINTER],
    }
    .effects();
    assert_eq!(found, store(8, false, false));
}

#[test]
fn alternatives_take_the_first() {
    assert_eq!(
        effects("$(clwb $0$|clwb byte ptr $0$)", "=*m", &[to(1)]),
        flush(FlushKind::Clwb)
    );
}

#[test]
fn constants_are_demanded_where_nothing_else_will_do() {
    use super::immediate_arguments;
    assert_eq!(immediate_arguments("=r,i,0,~{memory}"), vec![0]);
    assert_eq!(immediate_arguments("=*m,ri,*m,n"), vec![3]);
    assert_eq!(immediate_arguments("r,I,!i"), vec![1]);
}
