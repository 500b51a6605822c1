//! Makes valid modules that use every operation, from a seed.

use crashpoint_ir::*;

/// A small generator of numbers (SplitMix64): the same seed, the same module.
pub struct Source(u64);

impl Source {
    pub fn new(seed: u64) -> Source {
        Source(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn index(&mut self, limit: usize) -> u32 {
        self.below(limit) as u32
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 7] = ["a", "bucket", "", "naïve \"x\"\n", "0", "_ZN1a1bEv", "clwb"];
        TEXTS[self.below(TEXTS.len())].to_owned()
    }

    fn some<T>(&mut self, make: impl FnOnce(&mut Source) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    fn list<T>(&mut self, most: usize, mut make: impl FnMut(&mut Source) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn ordering(&mut self) -> Ordering {
        let all = [
            Ordering::NotAtomic,
            Ordering::Unordered,
            Ordering::Relaxed,
            Ordering::Acquire,
            Ordering::Release,
            Ordering::AcquireRelease,
            Ordering::SequentiallyConsistent,
        ];
        all[self.below(all.len())]
    }
}

/// What a function may refer to.
struct Scope {
    types: usize,
    globals: usize,
    functions: usize,
    locations: usize,
    blocks: usize,
    values: usize,
}

impl Scope {
    fn ty(&self, from: &mut Source) -> TypeId {
        TypeId(from.index(self.types))
    }

    fn block(&self, from: &mut Source) -> BlockId {
        BlockId(from.index(self.blocks))
    }

    fn constant(&self, from: &mut Source, depth: u32) -> Constant {
        match from.below(if depth < 3 { 13 } else { 12 }) {
            0 => Constant::Integer {
                bits: 1 + from.index(64),
                value: from.next(),
            },
            1 => Constant::WideInteger {
                bits: 128,
                words: vec![from.next(), from.next()],
            },
            2 => Constant::Float {
                name: ["double", "float", "fp128"][from.below(3)].to_owned(),
                bits: from.next(),
            },
            3 => Constant::Null,
            4 => Constant::Zero(self.ty(from)),
            5 => Constant::Undef,
            6 => Constant::Poison,
            7 => Constant::Global {
                global: GlobalId(from.index(self.globals)),
                offset_bytes: from.next() as i8 as i64,
            },
            8 => Constant::Function(FunctionId(from.index(self.functions))),
            // Every module's first function is a definition with at least one block.
            9 => Constant::Block {
                function: FunctionId(0),
                block: BlockId(0),
            },
            10 => Constant::Data(from.list(9, |from| from.next() as u8)),
            11 => Constant::Text(from.text()),
            _ => Constant::Aggregate {
                ty: self.ty(from),
                elements: from.list(3, |from| self.constant(from, depth + 1)),
            },
        }
    }

    fn operand(&self, from: &mut Source) -> Operand {
        match self.values > 0 && from.flag() {
            true => Operand::Value(ValueId(from.index(self.values))),
            false => Operand::Constant(self.constant(from, 0)),
        }
    }

    fn operands(&self, from: &mut Source) -> Vec<Operand> {
        from.list(3, |from| self.operand(from))
    }

    fn callee(&self, from: &mut Source, arguments: &[Operand]) -> Callee {
        match from.below(3) {
            0 => Callee::Direct(FunctionId(from.index(self.functions))),
            1 => Callee::Indirect(self.operand(from)),
            _ => Callee::Assembly {
                text: from.text(),
                constraints: from.text(),
                effects: match arguments.len() {
                    0 => vec![AssemblyEffect::Unknown { text: from.text() }],
                    count => from.list(3, |from| effect(from, count)),
                },
            },
        }
    }

    fn operation(&self, from: &mut Source) -> Op {
        match from.below(26) {
            0 => Op::Alloca {
                allocated: self.ty(from),
                count: self.operand(from),
            },
            1 => Op::Load {
                pointer: self.operand(from),
                size_bytes: from.next(),
                ordering: from.ordering(),
                volatile: from.flag(),
            },
            2 => Op::Store {
                value: self.operand(from),
                pointer: self.operand(from),
                size_bytes: 8,
                ordering: from.ordering(),
                volatile: from.flag(),
                nontemporal: from.flag(),
            },
            3 => Op::Address {
                source: self.ty(from),
                base: self.operand(from),
                indices: self.operands(from),
                inbounds: from.flag(),
            },
            4 => Op::Arithmetic {
                name: "add".to_owned(),
                operands: self.operands(from),
            },
            5 => Op::Cast {
                name: "zext".to_owned(),
                value: self.operand(from),
            },
            6 => Op::Compare {
                predicate: "eq".to_owned(),
                float: from.flag(),
                left: self.operand(from),
                right: self.operand(from),
            },
            7 => Op::Select {
                condition: self.operand(from),
                then: self.operand(from),
                otherwise: self.operand(from),
            },
            8 => Op::Phi {
                incoming: from.list(3, |from| (self.block(from), self.operand(from))),
            },
            9 => Op::ExtractValue {
                aggregate: self.operand(from),
                indices: from.list(2, |from| from.index(9)),
            },
            10 => Op::InsertValue {
                aggregate: self.operand(from),
                value: self.operand(from),
                indices: from.list(2, |from| from.index(9)),
            },
            11 => Op::ExtractElement {
                vector: self.operand(from),
                index: self.operand(from),
            },
            12 => Op::InsertElement {
                vector: self.operand(from),
                value: self.operand(from),
                index: self.operand(from),
            },
            13 => Op::ShuffleVector {
                left: self.operand(from),
                right: self.operand(from),
                mask: from.list(4, |from| from.next() as i8 as i32),
            },
            14 => Op::Freeze {
                value: self.operand(from),
            },
            15 => Op::VaArg {
                list: self.operand(from),
            },
            16 => Op::ReadModifyWrite {
                name: "xchg".to_owned(),
                pointer: self.operand(from),
                value: self.operand(from),
                size_bytes: 8,
                ordering: from.ordering(),
            },
            17 => Op::CompareExchange {
                pointer: self.operand(from),
                expected: self.operand(from),
                new: self.operand(from),
                size_bytes: 8,
                ordering: from.ordering(),
            },
            18 => Op::Fence {
                ordering: from.ordering(),
                machine: from.flag(),
            },
            19 => Op::Flush {
                name: "clwb".to_owned(),
                pointer: self.operand(from),
            },
            20 => Op::PersistFence {
                name: "sfence".to_owned(),
            },
            21 => Op::MemoryCopy {
                name: "memcpy".to_owned(),
                to: self.operand(from),
                from: self.operand(from),
                length: self.operand(from),
            },
            22 => Op::MemorySet {
                name: "memset".to_owned(),
                to: self.operand(from),
                value: self.operand(from),
                length: self.operand(from),
            },
            23 => {
                let arguments = self.operands(from);
                Op::Call {
                    callee: self.callee(from, &arguments),
                    arguments,
                    tail: from.flag(),
                }
            }
            24 => Op::Intrinsic {
                name: from.text(),
                arguments: self.operands(from),
            },
            _ => Op::LandingPad {
                cleanup: from.flag(),
            },
        }
    }

    fn terminator(&self, from: &mut Source) -> Op {
        match from.below(10) {
            0 => Op::Branch {
                to: self.block(from),
            },
            1 => Op::ConditionalBranch {
                condition: self.operand(from),
                then: self.block(from),
                otherwise: self.block(from),
            },
            2 => Op::Switch {
                value: self.operand(from),
                default: self.block(from),
                cases: from.list(3, |from| (self.constant(from, 2), self.block(from))),
            },
            3 => Op::IndirectBranch {
                address: self.operand(from),
                targets: from.list(3, |from| self.block(from)),
            },
            4 => {
                let arguments = self.operands(from);
                Op::Invoke {
                    callee: self.callee(from, &arguments),
                    arguments,
                    normal: self.block(from),
                    unwind: self.block(from),
                }
            }
            5 => {
                let arguments = self.operands(from);
                Op::CallBranch {
                    callee: self.callee(from, &arguments),
                    arguments,
                    default: self.block(from),
                    indirect: from.list(2, |from| self.block(from)),
                }
            }
            6 => Op::Return {
                value: from.some(|from| self.operand(from)),
            },
            7 => Op::Resume {
                value: self.operand(from),
            },
            8 => Op::Unreachable,
            _ => Op::Opaque {
                opcode: "catchswitch".to_owned(),
                operands: self.operands(from),
                successors: from.list(2, |from| self.block(from)),
            },
        }
    }
}

fn effect(from: &mut Source, arguments: usize) -> AssemblyEffect {
    match from.below(5) {
        0 => AssemblyEffect::Flush {
            name: "clflush".to_owned(),
            argument: from.index(arguments),
        },
        1 => AssemblyEffect::Fence {
            name: "mfence".to_owned(),
        },
        2 => AssemblyEffect::Store {
            argument: from.index(arguments),
            size_bytes: 8,
            locked: from.flag(),
            nontemporal: from.flag(),
        },
        3 => AssemblyEffect::Load {
            argument: from.index(arguments),
            size_bytes: 4,
        },
        _ => AssemblyEffect::Unknown { text: from.text() },
    }
}

fn ty(from: &mut Source, before: usize, layouts: usize) -> Type {
    let part = |from: &mut Source| TypeId(from.index(before));
    match from.below(if before == 0 { 5 } else { 9 }) {
        0 => Type::Void,
        1 => Type::Integer {
            bits: 1 + from.index(128),
        },
        2 => Type::Float {
            name: "double".to_owned(),
            bits: 64,
        },
        3 => Type::Pointer {
            address_space: from.index(2),
        },
        4 => Type::Other("metadata".to_owned()),
        5 => Type::Array {
            element: part(from),
            count: from.next() % 9,
        },
        6 => Type::Vector {
            element: part(from),
            count: 4,
            scalable: from.flag(),
        },
        7 => Type::Struct {
            name: from.some(Source::text),
            size_bytes: from.next() % 99,
            fields: from.list(4, |from| Field {
                ty: part(from),
                offset_bytes: from.next() % 64,
                name: from.some(Source::text),
            }),
            layout: from.some(|from| LayoutId(from.index(layouts))),
        },
        _ => Type::Function {
            result: part(from),
            parameters: from.list(3, part),
            variadic: from.flag(),
        },
    }
}

fn layout(from: &mut Source, index: usize, layouts: usize, locations: usize) -> Layout {
    Layout {
        name: from.text(),
        union: from.flag(),
        size_bytes: from.next() % 256,
        members: from.list(3, |from| Member {
            name: from.text(),
            offset_bits: from.next() % 512,
            size_bits: from.next() % 128,
            type_name: from.text(),
            composite: match index {
                0 => None,
                _ => from.some(|from| LayoutId(from.index(index))),
            },
            points_to: from.some(|from| LayoutId(from.index(layouts))),
            count: 1,
        }),
        location: from.some(|from| LocationId(from.index(locations))),
    }
}

fn location(from: &mut Source, index: usize, files: usize) -> Location {
    Location {
        file: FileId(from.index(files)),
        line: from.index(1000),
        column: from.index(80),
        function: from.some(Source::text),
        inlined_at: match index {
            0 => None,
            _ => from.some(|from| LocationId(from.index(index))),
        },
    }
}

/// Adds a site for a function or an instruction, sometimes.
fn site(from: &mut Source, sites: &mut Vec<Site>, of: Site) -> Option<SiteId> {
    from.flag().then(|| {
        sites.push(of);
        SiteId(sites.len() as u32 - 1)
    })
}

fn function(from: &mut Source, id: u32, scope: &Scope, sites: &mut Vec<Site>) -> Function {
    let blocks = if id == 0 {
        1 + from.below(4)
    } else {
        from.below(5)
    };
    let parameters = from.list(3, |from| Parameter {
        ty: scope.ty(from),
        name: from.some(Source::text),
        root: from.flag(),
    });
    let mut of = Site {
        function: FunctionId(id),
        instruction: None,
    };
    let own = site(from, sites, of);
    let lengths: Vec<usize> = (0..blocks).map(|_| from.below(6)).collect();
    // Terminators of this generator define nothing; everything else does or does not.
    let defines: Vec<Vec<bool>> = lengths
        .iter()
        .map(|length| (0..*length).map(|_| from.flag()).collect())
        .collect();
    let results = defines.iter().flatten().filter(|defines| **defines).count();
    let scope = Scope {
        blocks: blocks.max(1),
        values: parameters.len() + results,
        ..*scope
    };
    let mut value = parameters.len() as u32;
    let mut instruction = 0;
    let mut body = Vec::new();
    for defines in defines {
        let mut instructions = Vec::new();
        for defines in defines.into_iter().map(Some).chain([None]) {
            of.instruction = Some(InstId(instruction));
            instruction += 1;
            let op = match defines {
                Some(_) => scope.operation(from),
                None => scope.terminator(from),
            };
            let result = (defines == Some(true)).then(|| {
                value += 1;
                ValueId(value - 1)
            });
            instructions.push(Inst {
                result,
                ty: scope.ty(from),
                op,
                location: from.some(|from| LocationId(from.index(scope.locations))),
                site: site(from, sites, of),
                root: from.flag(),
            });
        }
        body.push(Block { instructions });
    }
    Function {
        name: format!("f{id}"),
        source_name: from.some(Source::text),
        internal: from.flag(),
        location: from.some(|from| LocationId(from.index(scope.locations))),
        result: scope.ty(from),
        parameters,
        variadic: from.flag(),
        hooks: match from.below(3) {
            0 => Hooks::Declaration,
            1 => Hooks::Hooked,
            _ => Hooks::Unhooked(from.text()),
        },
        site: own,
        blocks: body,
    }
}

pub fn module(seed: u64) -> Module {
    let mut from = Source::new(seed);
    let from = &mut from;
    let (types, layouts, locations) = (1 + from.below(9), 1 + from.below(4), 1 + from.below(9));
    let (globals, functions) = (1 + from.below(4), 1 + from.below(4));
    let scope = Scope {
        types,
        globals,
        functions,
        locations,
        blocks: 1,
        values: 0,
    };
    let mut sites = Vec::new();
    Module {
        source: from.text(),
        producer: from.text(),
        files: vec!["/src/a.c".to_owned(), "b.h".to_owned()],
        types: (0..types).map(|before| ty(from, before, layouts)).collect(),
        layouts: (0..layouts)
            .map(|index| layout(from, index, layouts, locations))
            .collect(),
        globals: (0..globals)
            .map(|_| Global {
                name: from.text(),
                ty: scope.ty(from),
                thread_local: from.flag(),
                constant: from.flag(),
                defined: from.flag(),
                location: from.some(|from| LocationId(from.index(locations))),
                functions: from.list(2, |from| FunctionId(from.index(functions))),
            })
            .collect(),
        functions: (0..functions as u32)
            .map(|id| function(from, id, &scope, &mut sites))
            .collect(),
        locations: (0..locations)
            .map(|index| location(from, index, 2))
            .collect(),
        sites,
    }
}
