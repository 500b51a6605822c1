//! The types of the program model.
//!
//! Values of a function are numbered: parameters first, in order, then the results of instructions
//! in block order. Every LLVM instruction becomes exactly one [`Inst`]; what has no modelled
//! meaning is [`Op::Opaque`] with its opcode and operands, never left out.

use serde::{Deserialize, Serialize};

crate::ids! {
    derive(Serialize, Deserialize)
    /// Index into [`Module::types`].
    TypeId
    /// Index into [`Module::globals`].
    GlobalId
    /// Index into [`Module::functions`].
    FunctionId
    /// Index into [`Function::blocks`].
    BlockId
    /// A parameter or an instruction result of one function.
    ValueId
    /// Index into [`Module::locations`].
    LocationId
    /// Index into [`Module::files`].
    FileId
    /// Index into [`Module::layouts`].
    LayoutId
    /// Index into [`Module::sites`].
    SiteId
    /// Index of an instruction within its function, counted over all blocks in order.
    InstId
}

/// How deep aggregates may nest in a [`Constant`], so that a hostile file cannot exhaust the stack.
pub const MAX_CONSTANT_DEPTH: u32 = 64;

/// Identity of a model: a hash of its encoded form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelId(pub [u8; 16]);

/// One translation unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// The source file as the compiler was given it.
    pub source: String,
    /// The compiler and its optimisation level, for people.
    pub producer: String,
    /// Source files, absolute where the compiler knew the folder.
    pub files: Vec<String>,
    pub types: Vec<Type>,
    /// Structs, unions and classes of the source language, from debug information.
    pub layouts: Vec<Layout>,
    pub globals: Vec<Global>,
    /// Definitions and declarations.
    pub functions: Vec<Function>,
    pub locations: Vec<Location>,
    /// Places where hooks report from, numbered within the module.
    pub sites: Vec<Site>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Type {
    Void,
    Integer {
        bits: u32,
    },
    Float {
        name: String,
        bits: u32,
    },
    Pointer {
        address_space: u32,
    },
    Array {
        element: TypeId,
        count: u64,
    },
    Vector {
        element: TypeId,
        count: u32,
        scalable: bool,
    },
    Struct {
        name: Option<String>,
        size_bytes: u64,
        fields: Vec<Field>,
        layout: Option<LayoutId>,
    },
    Function {
        result: TypeId,
        parameters: Vec<TypeId>,
        variadic: bool,
    },
    /// Label, token, metadata, x86 AMX and the like.
    Other(String),
}

/// A field of an LLVM struct type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    pub ty: TypeId,
    pub offset_bytes: u64,
    /// Name in the source, where a layout of the same name has a member at this offset.
    pub name: Option<String>,
}

/// A composite type of the source language.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    pub name: String,
    pub union: bool,
    pub size_bytes: u64,
    pub members: Vec<Member>,
    pub location: Option<LocationId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    pub offset_bits: u64,
    pub size_bits: u64,
    /// The type as source text, such as `struct bucket *`.
    pub type_name: String,
    /// The composite that this member, or the element of this array member, is (not points to).
    pub composite: Option<LayoutId>,
    /// The composite that this member points to.
    pub points_to: Option<LayoutId>,
    /// Elements, where the member is an array (1 otherwise).
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Global {
    pub name: String,
    pub ty: TypeId,
    pub thread_local: bool,
    pub constant: bool,
    pub defined: bool,
    pub location: Option<LocationId>,
    /// The functions whose addresses its initializer holds (a virtual table, a table of
    /// operations), in order, each once.
    pub functions: Vec<FunctionId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The linker's name.
    pub name: String,
    /// The name in the source (for C++ without parameters), where debug information has one.
    pub source_name: Option<String>,
    /// Not visible to other objects, which may have another function of this name (`static`).
    pub internal: bool,
    pub location: Option<LocationId>,
    pub result: TypeId,
    pub parameters: Vec<Parameter>,
    pub variadic: bool,
    pub hooks: Hooks,
    /// The function's own site, for those that are hooked.
    pub site: Option<SiteId>,
    /// Empty for a declaration. The first one is the entry.
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub ty: TypeId,
    pub name: Option<String>,
    /// Its address is recorded at level flow; see `crashpoint_abi::flow`.
    pub root: bool,
}

/// Whether a function reports what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hooks {
    /// Only declared here.
    Declaration,
    /// It has a hooked copy.
    Hooked,
    /// It is compiled as it is, for this reason.
    Unhooked(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Never empty; the last one is the terminator.
    pub instructions: Vec<Inst>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inst {
    /// The value it defines; none for void.
    pub result: Option<ValueId>,
    pub ty: TypeId,
    pub op: Op,
    pub location: Option<LocationId>,
    pub site: Option<SiteId>,
    /// Its address is recorded at level flow; see `crashpoint_abi::flow`.
    pub root: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Operand {
    Value(ValueId),
    Constant(Constant),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Constant {
    /// Little-endian bits, as many bytes as needed; sign is a matter of the operation.
    Integer {
        bits: u32,
        value: u64,
    },
    WideInteger {
        bits: u32,
        words: Vec<u64>,
    },
    Float {
        name: String,
        bits: u64,
    },
    Null,
    Zero(TypeId),
    Undef,
    Poison,
    /// The address of a global plus a constant.
    Global {
        global: GlobalId,
        offset_bytes: i64,
    },
    Function(FunctionId),
    Block {
        function: FunctionId,
        block: BlockId,
    },
    /// Nested at most [`MAX_CONSTANT_DEPTH`] deep; what is deeper is [`Constant::Text`].
    Aggregate {
        ty: TypeId,
        #[serde(deserialize_with = "crate::nesting::bounded")]
        elements: Vec<Constant>,
    },
    /// Raw bytes of a constant array of integers.
    Data(Vec<u8>),
    /// Anything else, as LLVM prints it.
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ordering {
    NotAtomic,
    Unordered,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
    SequentiallyConsistent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    Alloca {
        allocated: TypeId,
        count: Operand,
    },
    Load {
        pointer: Operand,
        size_bytes: u64,
        ordering: Ordering,
        volatile: bool,
    },
    Store {
        value: Operand,
        pointer: Operand,
        size_bytes: u64,
        ordering: Ordering,
        volatile: bool,
        nontemporal: bool,
    },
    /// `getelementptr`: the first index steps over whole `source` elements, the others into it.
    Address {
        source: TypeId,
        base: Operand,
        indices: Vec<Operand>,
        inbounds: bool,
    },
    /// Arithmetic and bit operations by LLVM's name (`add`, `fmul`, `lshr`, `fneg`, …).
    Arithmetic {
        name: String,
        operands: Vec<Operand>,
    },
    /// Casts by LLVM's name (`zext`, `ptrtoint`, …).
    Cast {
        name: String,
        value: Operand,
    },
    /// Comparisons by LLVM's predicate (`eq`, `ult`, `oge`, …).
    Compare {
        predicate: String,
        float: bool,
        left: Operand,
        right: Operand,
    },
    Select {
        condition: Operand,
        then: Operand,
        otherwise: Operand,
    },
    Phi {
        incoming: Vec<(BlockId, Operand)>,
    },
    ExtractValue {
        aggregate: Operand,
        indices: Vec<u32>,
    },
    InsertValue {
        aggregate: Operand,
        value: Operand,
        indices: Vec<u32>,
    },
    ExtractElement {
        vector: Operand,
        index: Operand,
    },
    InsertElement {
        vector: Operand,
        value: Operand,
        index: Operand,
    },
    ShuffleVector {
        left: Operand,
        right: Operand,
        mask: Vec<i32>,
    },
    Freeze {
        value: Operand,
    },
    VaArg {
        list: Operand,
    },
    ReadModifyWrite {
        /// `xchg`, `add`, `or`, `umax`, …
        name: String,
        pointer: Operand,
        value: Operand,
        size_bytes: u64,
        ordering: Ordering,
    },
    CompareExchange {
        pointer: Operand,
        expected: Operand,
        new: Operand,
        size_bytes: u64,
        ordering: Ordering,
    },
    /// A `fence` of the language; `machine` if it is one on the machine too.
    Fence {
        ordering: Ordering,
        machine: bool,
    },
    /// A flush or a fence instruction, by intrinsic (assembly is in [`Op::Call`]).
    Flush {
        name: String,
        pointer: Operand,
    },
    PersistFence {
        name: String,
    },
    /// A memory intrinsic: `memcpy`, `memmove`, `memset` and relatives.
    MemoryCopy {
        name: String,
        to: Operand,
        from: Operand,
        length: Operand,
    },
    MemorySet {
        name: String,
        to: Operand,
        value: Operand,
        length: Operand,
    },
    Call {
        callee: Callee,
        arguments: Vec<Operand>,
        tail: bool,
    },
    /// An intrinsic without an effect that matters here (`llvm.lifetime.start`, `llvm.expect`, …).
    Intrinsic {
        name: String,
        arguments: Vec<Operand>,
    },
    LandingPad {
        cleanup: bool,
    },
    Branch {
        to: BlockId,
    },
    /// Successor 0 is `then`, 1 is `otherwise`.
    ConditionalBranch {
        condition: Operand,
        then: BlockId,
        otherwise: BlockId,
    },
    /// Successor 0 is the default, then the cases in order.
    Switch {
        value: Operand,
        default: BlockId,
        cases: Vec<(Constant, BlockId)>,
    },
    IndirectBranch {
        address: Operand,
        targets: Vec<BlockId>,
    },
    Invoke {
        callee: Callee,
        arguments: Vec<Operand>,
        normal: BlockId,
        unwind: BlockId,
    },
    CallBranch {
        callee: Callee,
        arguments: Vec<Operand>,
        default: BlockId,
        indirect: Vec<BlockId>,
    },
    Return {
        value: Option<Operand>,
    },
    Resume {
        value: Operand,
    },
    Unreachable,
    /// Modelled by name only: any effect is possible.
    Opaque {
        opcode: String,
        operands: Vec<Operand>,
        successors: Vec<BlockId>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Callee {
    Direct(FunctionId),
    Indirect(Operand),
    Assembly {
        text: String,
        constraints: String,
        effects: Vec<AssemblyEffect>,
    },
}

/// What inline assembly does to memory, as far as its text tells. Operands index the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AssemblyEffect {
    /// `clflush`, `clflushopt` or `clwb`.
    Flush {
        name: String,
        argument: u32,
    },
    /// `sfence` or `mfence`.
    Fence {
        name: String,
    },
    /// `size_bytes` is 0 where only the type of the operand tells.
    Store {
        argument: u32,
        size_bytes: u32,
        locked: bool,
        nontemporal: bool,
    },
    Load {
        argument: u32,
        size_bytes: u32,
    },
    /// It may touch memory in a way that its text does not tell.
    Unknown {
        text: String,
    },
}

/// A place in the source, with the call it was inlined into, if any.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    pub file: FileId,
    pub line: u32,
    pub column: u32,
    /// The source function it belongs to, where it is not the enclosing one (inlining).
    pub function: Option<String>,
    pub inlined_at: Option<LocationId>,
}

/// A place where a hook reports from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub function: FunctionId,
    /// None: the function itself.
    pub instruction: Option<InstId>,
}
