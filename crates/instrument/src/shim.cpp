// What the pass needs and LLVM's C interface lacks. No decisions are made here: each function does
// one thing to LLVM's data and the logic is in Rust. Handles are the C interface's own.

#include "llvm-c/Core.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/InlineCost.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

using namespace llvm;

// In Rust. Returns whether the module changed; does not return after an error.
extern "C" bool crashpoint_instrument(LLVMModuleRef module, unsigned optimization, void *analyses);

namespace {

struct Instrument : PassInfoMixin<Instrument> {
  unsigned optimization;
  explicit Instrument(unsigned optimization) : optimization(optimization) {}

  PreservedAnalyses run(Module &module, ModuleAnalysisManager &analyses) {
    auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
    bool changed = crashpoint_instrument(wrap(&module), optimization, &functions);
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }

  // Neither -O0 nor bisection may leave it out.
  static bool isRequired() { return true; }
};

// A string that lives as long as the module.
struct Text {
  const char *data;
  size_t length;
};

Text text(StringRef s) { return {s.data(), s.size()}; }

template <class T> T *metadata(LLVMMetadataRef node) { return dyn_cast_or_null<T>(unwrap(node)); }

LLVMMetadataRef handle(const Metadata *node) { return wrap(const_cast<Metadata *>(node)); }

// Gives a cloned body scopes of its own: two functions may not share a subprogram.
class Scopes {
  DISubprogram *from;
  DISubprogram *to;
  DenseMap<const MDNode *, MDNode *> done;

public:
  Scopes(DISubprogram *from, DISubprogram *to) : from(from), to(to) {}

  DILocalScope *scope(DILocalScope *old) {
    if (old == from)
      return to;
    if (isa<DISubprogram>(old))
      return old;
    if (MDNode *known = done.lookup(old))
      return cast<DILocalScope>(known);
    DILocalScope *made = old;
    auto &context = old->getContext();
    if (auto *block = dyn_cast<DILexicalBlock>(old))
      made = DILexicalBlock::getDistinct(context, scope(block->getScope()), block->getFile(),
                                         block->getLine(), block->getColumn());
    else if (auto *file = dyn_cast<DILexicalBlockFile>(old))
      made = DILexicalBlockFile::get(context, scope(file->getScope()), file->getFile(),
                                     file->getDiscriminator());
    done[old] = made;
    return made;
  }

  DILocation *location(DILocation *old) {
    if (MDNode *known = done.lookup(old))
      return cast<DILocation>(known);
    DILocation *at = old->getInlinedAt();
    // Only the outermost scope belongs to the function itself.
    DILocation *made =
        at ? DILocation::getDistinct(old->getContext(), old->getLine(), old->getColumn(),
                                     old->getScope(), location(at), old->isImplicitCode())
           : DILocation::get(old->getContext(), old->getLine(), old->getColumn(),
                             scope(old->getScope()), nullptr, old->isImplicitCode());
    done[old] = made;
    return made;
  }
};

void relocate(Instruction &instruction, Scopes &scopes) {
  if (DILocation *location = instruction.getDebugLoc())
    instruction.setDebugLoc(scopes.location(location));
  updateLoopMetadataDebugLocations(instruction, [&](Metadata *node) -> Metadata * {
    if (auto *location = dyn_cast_or_null<DILocation>(node))
      return scopes.location(location);
    return node;
  });
}

// A warning of a plugin, which clang prints as its own.
struct Warning : DiagnosticInfo {
  const char *message;
  explicit Warning(const char *message)
      : DiagnosticInfo(kind(), DS_Warning), message(message) {}
  void print(DiagnosticPrinter &out) const override { out << message; }
  static int kind() {
    static const int number = getNextAvailablePluginDiagnosticKind();
    return number;
  }
};

// Whether all uses of a constant are by instructions of the function.
bool used_only_in(const Constant &constant, const Function &function) {
  for (const User *user : constant.users()) {
    if (auto *inside = dyn_cast<Instruction>(user)) {
      if (inside->getFunction() != &function)
        return false;
    } else if (auto *expression = dyn_cast<ConstantExpr>(user)) {
      if (!used_only_in(*expression, function))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

// The variables whose initializers a constant is part of; false if it is used in another way.
bool find_variables(Constant &constant, SetVector<GlobalVariable *> &found) {
  for (User *user : constant.users()) {
    if (auto *variable = dyn_cast<GlobalVariable>(user))
      found.insert(variable);
    else if (!isa<Constant>(user) || isa<GlobalValue>(user) ||
             !find_variables(*cast<Constant>(user), found))
      return false;
  }
  return true;
}

// Collects the constant tables that hold addresses of the function's blocks and that only the
// function uses. False if an address is used otherwise outside of the body.
bool find_label_tables(Function &function, SmallVectorImpl<GlobalVariable *> &tables) {
  SetVector<GlobalVariable *> found;
  for (auto &block : function) {
    auto *address = block.hasAddressTaken() ? BlockAddress::lookup(&block) : nullptr;
    if (!address)
      continue;
    for (User *user : address->users()) {
      if (auto *inside = dyn_cast<Instruction>(user)) {
        if (inside->getFunction() != &function)
          return false;
        continue;
      }
      if (auto *variable = dyn_cast<GlobalVariable>(user))
        found.insert(variable);
      else if (used_only_in(*cast<Constant>(user), function))
        continue;
      else if (isa<GlobalValue>(user) || !find_variables(*cast<Constant>(user), found))
        return false;
    }
  }
  for (auto *table : found) {
    if (!table->hasLocalLinkage() || !table->isConstant() || table->isThreadLocal() ||
        !used_only_in(*table, function))
      return false;
    tables.push_back(table);
  }
  return true;
}

Instruction *instruction(LLVMValueRef value) { return cast<Instruction>(unwrap(value)); }

} // namespace

extern "C" {

void cp_register_callbacks(PassBuilder &builder) {
  builder.registerPipelineStartEPCallback([](ModulePassManager &passes, OptimizationLevel level) {
    passes.addPass(Instrument(level.getSpeedupLevel() * 10 + level.getSizeLevel()));
  });
}

[[noreturn]] void cp_fatal(const char *message) {
  report_fatal_error(Twine(message), /*gen_crash_diag=*/false);
}

void cp_warn(LLVMContextRef context, const char *message) {
  unwrap(context)->diagnose(Warning(message));
}

// ---- functions -----------------------------------------------------------------------------

// Scalar replacement without a change of the control flow, whatever the function's attributes.
void cp_promote(LLVMValueRef value, void *analyses) {
  auto &function = *unwrap<Function>(value);
  auto &manager = *static_cast<FunctionAnalysisManager *>(analyses);
  SROAPass(SROAOptions::PreserveCFG).run(function, manager);
  manager.clear(function, function.getName());
}

// Inlines the helpers of the compiler's and the C library's headers (always_inline, and either
// artificial or without debug information) wherever they are called, so that what they do belongs to
// the line that calls them.
void cp_inline_helpers(LLVMModuleRef handle) {
  auto &module = *unwrap(handle);
  if (module.debug_compile_units().empty())
    return;
  SmallVector<Function *> helpers;
  for (auto &function : module) {
    auto *subprogram = function.getSubprogram();
    if (!function.isDeclaration() && (!subprogram || subprogram->isArtificial()) &&
        function.hasLocalLinkage() && function.hasFnAttribute(Attribute::AlwaysInline) &&
        isInlineViable(function).isSuccess()) {
      // Without locations of its own, the body takes those of the calls.
      stripDebugInfo(function);
      helpers.push_back(&function);
    }
  }
  for (auto *helper : helpers) {
    SmallVector<CallBase *> calls;
    for (auto *user : helper->users())
      if (auto *call = dyn_cast<CallBase>(user))
        if (call->getCalledFunction() == helper && call->getFunction() != helper)
          calls.push_back(call);
    for (auto *call : calls) {
      InlineFunctionInfo info;
      InlineFunction(*call, info, /*MergeAttributes=*/true);
    }
    if (helper->use_empty())
      helper->eraseFromParent();
  }
}

// Inlines one call. False, and nothing changed, if LLVM would rather not.
bool cp_inline_call(LLVMValueRef value, void *analyses) {
  auto &call = *cast<CallBase>(unwrap(value));
  auto &caller = *call.getFunction();
  auto &callee = *call.getCalledFunction();
  auto &manager = *static_cast<FunctionAnalysisManager *>(analyses);
  auto &target = manager.getResult<TargetIRAnalysis>(caller);
  // A call without a location cannot take a body with one.
  bool located = !callee.getSubprogram() || !caller.getSubprogram() || call.getDebugLoc();
  if (&caller == &callee || call.isMustTailCall() || call.isNoInline() || !located ||
      caller.hasOptNone() || !AttributeFuncs::areInlineCompatible(caller, callee) ||
      !target.areInlineCompatible(&caller, &callee) || !isInlineViable(callee).isSuccess())
    return false;
  InlineFunctionInfo info;
  return InlineFunction(call, info, /*MergeAttributes=*/true).isSuccess();
}

// Analyses of a function are dropped: its body is about to change.
void cp_forget(LLVMValueRef value, void *analyses) {
  auto &function = *unwrap<Function>(value);
  static_cast<FunctionAnalysisManager *>(analyses)->clear(function, function.getName());
}

bool cp_interposable(LLVMValueRef value) { return unwrap<GlobalValue>(value)->isInterposable(); }
bool cp_dso_local(LLVMValueRef value) { return unwrap<GlobalValue>(value)->isDSOLocal(); }
bool cp_has_comdat(LLVMValueRef value) { return unwrap<GlobalObject>(value)->hasComdat(); }
bool cp_discardable(LLVMValueRef value) {
  return unwrap<GlobalValue>(value)->isDiscardableIfUnused();
}
// The function or variable behind aliases; null if there is none.
LLVMValueRef cp_aliased(LLVMValueRef value) {
  return wrap(unwrap<GlobalValue>(value)->getAliaseeObject());
}
bool cp_returns_twice(LLVMValueRef value) {
  return cast<CallBase>(unwrap(value))->hasFnAttr(Attribute::ReturnsTwice);
}
bool cp_must_tail(LLVMValueRef value) { return cast<CallBase>(unwrap(value))->isMustTailCall(); }
bool cp_does_not_return(LLVMValueRef value) {
  return cast<CallBase>(unwrap(value))->doesNotReturn();
}
bool cp_does_not_throw(LLVMValueRef value) {
  return cast<CallBase>(unwrap(value))->doesNotThrow();
}
// How many bytes an argument passed by value in memory has; 0 if it is not passed so.
uint64_t cp_by_value_bytes(LLVMValueRef value, unsigned index) {
  auto *call = cast<CallBase>(unwrap(value));
  if (!call->isByValArgument(index))
    return 0;
  return call->getDataLayout().getTypeAllocSize(call->getParamByValType(index));
}
bool cp_parameter_on_stack(LLVMValueRef value) {
  auto *argument = cast<Argument>(unwrap(value));
  return argument->hasPassPointeeByValueCopyAttr();
}

// Whether some block's address is known outside of the body, other than by a constant table that
// only the body uses: such a table can be copied with the body.
bool cp_block_address_escapes(LLVMValueRef value) {
  auto &function = *unwrap<Function>(value);
  SmallVector<GlobalVariable *> tables;
  return !find_label_tables(function, tables);
}

// A function like another one, without body.
LLVMValueRef cp_create_like(LLVMValueRef value, const char *name) {
  auto &function = *unwrap<Function>(value);
  auto *copy = Function::Create(function.getFunctionType(), GlobalValue::InternalLinkage,
                                function.getAddressSpace(), name, function.getParent());
  copy->copyAttributesFrom(&function);
  copy->setVisibility(GlobalValue::DefaultVisibility);
  copy->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  copy->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  copy->setPrefixData(nullptr);
  copy->setPrologueData(nullptr);
  copy->setDSOLocal(true);
  return wrap(copy);
}

// Linkage for copies of functions that every object may define: merged by the linker, in a group
// of their own, so that they never leave with a group that another compiler filled.
void cp_merge_by_name(LLVMValueRef value) {
  auto &function = *unwrap<Function>(value);
  function.setLinkage(GlobalValue::LinkOnceODRLinkage);
  function.setVisibility(GlobalValue::HiddenVisibility);
  function.setComdat(function.getParent()->getOrInsertComdat(function.getName()));
}

// Copies the body. Debug records of variables are left out: the plain copy has them.
void cp_clone_body(LLVMValueRef from_value, LLVMValueRef to_value) {
  auto &from = *unwrap<Function>(from_value);
  auto &to = *unwrap<Function>(to_value);
  // Before there is a second body that uses them.
  SmallVector<GlobalVariable *> tables;
  find_label_tables(from, tables);
  ValueToValueMapTy map;
  auto into = to.arg_begin();
  for (auto &argument : from.args())
    map[&argument] = &*into++;
  for (auto &block : from) {
    auto *copy = CloneBasicBlock(&block, map, "", &to);
    map[&block] = copy;
    if (block.hasAddressTaken())
      map[BlockAddress::get(&from, &block)] = BlockAddress::get(&to, copy);
  }
  for (auto *table : tables) {
    auto *copy = new GlobalVariable(*from.getParent(), table->getValueType(), true,
                                    GlobalValue::PrivateLinkage, nullptr, table->getName());
    copy->copyAttributesFrom(table);
    copy->setInitializer(MapValue(table->getInitializer(), map));
    map[table] = copy;
  }
  DISubprogram *old = from.getSubprogram();
  DISubprogram *made = nullptr;
  if (old) {
    made = MDNode::replaceWithDistinct(old->clone());
    made->replaceRetainedNodes(MDTuple::get(from.getContext(), {}));
    to.setSubprogram(made);
  }
  Scopes scopes(old, made);
  for (auto &block : to)
    for (auto &inside : make_early_inc_range(block)) {
      inside.dropDbgRecords();
      if (isa<DbgInfoIntrinsic>(inside)) {
        inside.eraseFromParent();
        continue;
      }
      inside.setMetadata(LLVMContext::MD_DIAssignID, nullptr);
      RemapInstruction(&inside, map, RF_NoModuleLevelChanges | RF_IgnoreMissingLocals);
      if (old)
        relocate(inside, scopes);
    }
}

// Moves body and subprogram to a function without body.
void cp_move_body(LLVMValueRef from_value, LLVMValueRef to_value) {
  auto &from = *unwrap<Function>(from_value);
  auto &to = *unwrap<Function>(to_value);
  auto into = to.arg_begin();
  for (auto &argument : from.args()) {
    argument.replaceAllUsesWith(&*into);
    into->takeName(&argument);
    ++into;
  }
  SmallVector<std::pair<BlockAddress *, BasicBlock *>> addresses;
  for (auto &block : from)
    if (block.hasAddressTaken())
      if (auto *address = BlockAddress::lookup(&block))
        addresses.push_back({address, &block});
  to.splice(to.begin(), &from);
  for (auto [address, block] : addresses)
    address->replaceAllUsesWith(BlockAddress::get(&to, block));
  to.setSubprogram(from.getSubprogram());
  from.setSubprogram(nullptr);
}

// Calls of functions declared with the attribute `error` or `warning` are diagnosed if they survive
// optimisation. A hooked body is not optimised, so they do, although they never run. An `error` is
// replaced by a trap, since the function need not exist; a `warning` is called through a pointer.
void cp_disarm_calls(LLVMValueRef value) {
  auto &function = *unwrap<Function>(value);
  SmallVector<CallBase *> errors, warnings;
  for (auto &inside : instructions(function))
    if (auto *call = dyn_cast<CallBase>(&inside))
      if (auto *callee = call->getCalledFunction()) {
        if (callee->hasFnAttribute("dontcall-error"))
          errors.push_back(call);
        else if (callee->hasFnAttribute("dontcall-warn"))
          warnings.push_back(call);
      }
  for (auto *call : errors) {
    if (auto *invoke = dyn_cast<InvokeInst>(call))
      call = changeToCall(invoke);
    IRBuilder<> builder(call);
    builder.CreateIntrinsic(Intrinsic::trap, {}, {});
    call->replaceAllUsesWith(PoisonValue::get(call->getType()));
    call->eraseFromParent();
  }
  for (auto *call : warnings) {
    auto *callee = call->getCalledFunction();
    auto *holder = new GlobalVariable(*function.getParent(), callee->getType(), true,
                                      GlobalValue::PrivateLinkage, callee, "__crashpoint.callee");
    IRBuilder<> builder(call);
    call->setCalledOperand(builder.CreateLoad(callee->getType(), holder));
  }
}

// Removes what an optimiser might conclude of the original and is not true of a body with hooks.
void cp_forget_effects(LLVMValueRef value) {
  auto &function = *unwrap<Function>(value);
  AttributeMask mask;
  for (auto kind : {Attribute::Memory, Attribute::NoSync, Attribute::NoFree, Attribute::NoCallback,
                    Attribute::Speculatable, Attribute::WillReturn, Attribute::NoRecurse})
    mask.addAttribute(kind);
  function.removeFnAttrs(mask);
  AttributeMask parameter;
  for (auto kind : {Attribute::ReadNone, Attribute::ReadOnly, Attribute::WriteOnly,
                    Attribute::Writable, Attribute::Returned})
    parameter.addAttribute(kind);
  for (unsigned i = 0; i < function.arg_size(); ++i)
    function.removeParamAttrs(i, parameter);
}

void cp_forget_call_effects(LLVMValueRef value) {
  auto &call = *cast<CallBase>(unwrap(value));
  AttributeMask mask;
  for (auto kind : {Attribute::Memory, Attribute::NoSync, Attribute::NoFree, Attribute::NoCallback,
                    Attribute::WillReturn})
    mask.addAttribute(kind);
  call.removeFnAttrs(mask);
}

// Hooks of other tools on entry and exit stay with the copies.
void cp_strip_entry_hooks(LLVMValueRef value) {
  auto &function = *unwrap<Function>(value);
  for (const char *name :
       {"instrument-function-entry", "instrument-function-exit", "instrument-function-entry-inlined",
        "instrument-function-exit-inlined", "fentry-call", "mrecord-mcount", "mnop-mcount",
        "xray-instruction-threshold", "function-instrument", "probe-stack", "stack-probe-size"})
    function.removeFnAttr(name);
  for (auto kind : {Attribute::OptimizeNone, Attribute::StackProtect, Attribute::StackProtectReq,
                    Attribute::StackProtectStrong, Attribute::SafeStack,
                    Attribute::SanitizeAddress, Attribute::SanitizeThread,
                    Attribute::SanitizeMemory, Attribute::SanitizeHWAddress})
    function.removeFnAttr(kind);
}

// Calls the copy with the arguments of `from` and returns its result. The callee may forward
// variable arguments only by a guaranteed tail call; arguments on the stack only without one.
void cp_forward(LLVMValueRef from_value, LLVMValueRef to_value, LLVMBasicBlockRef at,
                bool may_inline) {
  auto &from = *unwrap<Function>(from_value);
  auto &to = *unwrap<Function>(to_value);
  SmallVector<Value *> arguments;
  bool on_stack = false;
  for (auto &argument : from.args()) {
    arguments.push_back(&argument);
    on_stack |= argument.hasPassPointeeByValueCopyAttr();
  }
  auto *block = unwrap(at);
  auto *call = CallInst::Create(to.getFunctionType(), &to, arguments, "", block);
  call->setCallingConv(to.getCallingConv());
  AttributeList all = to.getAttributes();
  AttributeList kept = AttributeList::get(from.getContext(), AttributeSet(), all.getRetAttrs(), {});
  for (unsigned i = 0; i < to.arg_size(); ++i)
    if (all.hasParamAttrs(i))
      kept = kept.addParamAttributes(from.getContext(), i,
                                     AttrBuilder(from.getContext(), all.getParamAttrs(i)));
  call->setAttributes(kept);
  if (!on_stack || from.isVarArg())
    call->setTailCallKind(CallInst::TCK_MustTail);
  if (!may_inline)
    call->addFnAttr(Attribute::NoInline);
  if (auto *scope = from.getSubprogram())
    call->setDebugLoc(DILocation::get(from.getContext(), scope->getLine(), 0, scope));
  if (from.getReturnType()->isVoidTy())
    ReturnInst::Create(from.getContext(), block);
  else
    ReturnInst::Create(from.getContext(), call, block);
}

// ---- blocks --------------------------------------------------------------------------------

// Splits before an instruction; the new block is entered if the condition holds. Returns the
// branch at its end. Weights are `taken : not taken`.
LLVMValueRef cp_if(LLVMValueRef condition, LLVMValueRef before, uint32_t taken,
                   uint32_t not_taken) {
  auto *at = instruction(before);
  MDNode *weights = nullptr;
  if (taken || not_taken)
    weights = MDBuilder(at->getContext()).createBranchWeights(taken, not_taken);
  auto *end = SplitBlockAndInsertIfThen(unwrap(condition), at->getIterator(), false, weights);
  // Bodies with hooks are not laid out by the optimiser: what is rare goes out of the way here.
  if (taken < not_taken)
    end->getParent()->moveAfter(&end->getFunction()->back());
  return wrap(end);
}

LLVMBasicBlockRef cp_split(LLVMValueRef before) {
  auto *at = instruction(before);
  return wrap(at->getParent()->splitBasicBlock(at->getIterator()));
}

void cp_set_weights(LLVMValueRef branch, uint32_t then, uint32_t otherwise) {
  auto *at = instruction(branch);
  at->setMetadata(LLVMContext::MD_prof,
                  MDBuilder(at->getContext()).createBranchWeights(then, otherwise));
}

// A block of its own on the edge to the normal destination of an invoke.
LLVMBasicBlockRef cp_split_normal_edge(LLVMValueRef value) {
  auto *invoke = cast<InvokeInst>(unwrap(value));
  auto *to = invoke->getNormalDest();
  auto *edge = BasicBlock::Create(to->getContext(), "", to->getParent(), to);
  BranchInst::Create(to, edge);
  invoke->setNormalDest(edge);
  to->replacePhiUsesWith(invoke->getParent(), edge);
  return wrap(edge);
}

unsigned cp_predecessor_count(LLVMBasicBlockRef block) { return pred_size(unwrap(block)); }

void cp_move_before(LLVMValueRef value, LLVMValueRef before) {
  instruction(value)->moveBefore(instruction(before));
}

// The instruction that a builder inserts before; null at the end of a block.
LLVMValueRef cp_insert_point(LLVMBuilderRef builder) {
  auto *block = unwrap(builder)->GetInsertBlock();
  auto at = unwrap(builder)->GetInsertPoint();
  return !block || at == block->end() ? nullptr : wrap(&*at);
}

// As clang gives to every function of the module, so that debuggers can unwind through it.
void cp_add_unwind_table(LLVMValueRef value) {
  auto &function = *unwrap<Function>(value);
  function.setUWTableKind(function.getParent()->getUwtable());
}

// Marks what we insert: sanitizers must not check it.
void cp_no_sanitize(LLVMValueRef value) {
  if (auto *inside = dyn_cast<Instruction>(unwrap(value)))
    inside->setNoSanitizeMetadata();
}

// A TBAA tag for memory that no access of the program can reach: beside C's and C++'s `char`, under
// the same root. Null if the module says nothing about types of accesses.
LLVMMetadataRef cp_own_access_tag(LLVMModuleRef handle_, const char *name) {
  auto &module = *unwrap(handle_);
  MDNode *type = nullptr;
  for (auto &function : module)
    for (auto &inside : instructions(function))
      if (auto *tag = inside.getMetadata(LLVMContext::MD_tbaa)) {
        // A tag names its base type first; a scalar type names its parent second.
        type = tag->getNumOperands() >= 3 ? dyn_cast<MDNode>(tag->getOperand(1)) : nullptr;
        if (type)
          break;
      }
  if (!type)
    return nullptr;
  while (type->getNumOperands() >= 2) {
    auto *parent = dyn_cast<MDNode>(type->getOperand(1));
    if (!parent)
      break;
    type = parent;
  }
  MDBuilder builder(module.getContext());
  auto *own = builder.createTBAAScalarTypeNode(name, type);
  return wrap(builder.createTBAAStructTagNode(own, own, 0));
}

void cp_set_access_tag(LLVMValueRef value, LLVMMetadataRef tag) {
  if (auto *inside = dyn_cast<Instruction>(unwrap(value)))
    inside->setMetadata(LLVMContext::MD_tbaa, cast<MDNode>(unwrap(tag)));
}

void cp_no_sanitize_global(LLVMValueRef value) {
  auto *global = unwrap<GlobalVariable>(value);
  GlobalValue::SanitizerMetadata metadata;
  metadata.NoAddress = true;
  metadata.NoHWAddress = true;
  global->setSanitizerMetadata(metadata);
}

void cp_global_comdat(LLVMValueRef value) {
  auto *global = unwrap<GlobalVariable>(value);
  global->setComdat(global->getParent()->getOrInsertComdat(global->getName()));
}

void cp_append_constructor(LLVMModuleRef module, LLVMValueRef function, int priority) {
  appendToGlobalCtors(*unwrap(module), unwrap<Function>(function), priority);
}

void cp_append_destructor(LLVMModuleRef module, LLVMValueRef function, int priority) {
  appendToGlobalDtors(*unwrap(module), unwrap<Function>(function), priority);
}

// ---- constants -----------------------------------------------------------------------------

// The global behind constant offsets, or null; the offset is added to `offset`.
LLVMValueRef cp_constant_base(LLVMValueRef value, LLVMModuleRef module, int64_t *offset) {
  auto *constant = dyn_cast<Constant>(unwrap(value));
  if (!constant || !constant->getType()->isPointerTy())
    return nullptr;
  auto &layout = unwrap(module)->getDataLayout();
  APInt total(layout.getIndexTypeSizeInBits(constant->getType()), 0);
  Value *base = constant->stripAndAccumulateConstantOffsets(layout, total, true);
  *offset = total.getSExtValue();
  return isa<GlobalValue>(base) ? wrap(base) : nullptr;
}

unsigned cp_integer_words(LLVMValueRef value, uint64_t *words, unsigned capacity) {
  const APInt &number = unwrap<ConstantInt>(value)->getValue();
  unsigned count = std::min(number.getNumWords(), capacity);
  for (unsigned i = 0; i < count; ++i)
    words[i] = number.getRawData()[i];
  return count;
}

// The bits of a floating constant of at most 64; false for wider ones.
bool cp_float_bits(LLVMValueRef value, uint64_t *bits) {
  APInt raw = unwrap<ConstantFP>(value)->getValueAPF().bitcastToAPInt();
  if (raw.getBitWidth() > 64)
    return false;
  *bits = raw.getZExtValue();
  return true;
}

// The bytes of a constant array of 8-bit integers.
bool cp_data(LLVMValueRef value, Text *bytes) {
  auto *data = dyn_cast<ConstantDataSequential>(unwrap(value));
  if (!data || !data->getElementType()->isIntegerTy(8))
    return false;
  *bytes = text(data->getRawDataValues());
  return true;
}

LLVMValueRef cp_block_address_function(LLVMValueRef value) {
  return wrap(unwrap<BlockAddress>(value)->getFunction());
}
LLVMBasicBlockRef cp_block_address_block(LLVMValueRef value) {
  return wrap(unwrap<BlockAddress>(value)->getBasicBlock());
}

// ---- instructions --------------------------------------------------------------------------

// Reports each parameter that a debug record names: (index, name).
void cp_parameter_names(LLVMValueRef value, void (*report)(void *, unsigned, Text),
                        void *context) {
  auto &function = *unwrap<Function>(value);
  auto one = [&](Value *at, DILocalVariable *variable) {
    auto *argument = dyn_cast_or_null<Argument>(at);
    if (argument && variable && variable->getArg())
      report(context, argument->getArgNo(), text(variable->getName()));
  };
  for (auto &block : function)
    for (auto &inside : block) {
      for (DbgVariableRecord &record : filterDbgVars(inside.getDbgRecordRange()))
        for (Value *at : record.location_ops())
          one(at, record.getVariable());
      if (auto *record = dyn_cast<DbgVariableIntrinsic>(&inside))
        for (Value *at : record->location_ops())
          one(at, record->getVariable());
    }
}

Text cp_opcode_name(LLVMValueRef value) {
  const char *name = instruction(value)->getOpcodeName();
  return text(name);
}
Text cp_rmw_name(LLVMValueRef value) {
  return text(AtomicRMWInst::getOperationName(cast<AtomicRMWInst>(unwrap(value))->getOperation()));
}
Text cp_predicate_name(LLVMValueRef value) {
  return text(CmpInst::getPredicateName(cast<CmpInst>(unwrap(value))->getPredicate()));
}

bool cp_may_write(LLVMValueRef value) { return !cast<CallBase>(unwrap(value))->onlyReadsMemory(); }
bool cp_accesses_memory(LLVMValueRef value) {
  return !cast<CallBase>(unwrap(value))->doesNotAccessMemory();
}

bool cp_is_debug(LLVMValueRef value) { return isa<DbgInfoIntrinsic>(unwrap(value)); }

unsigned cp_mask_count(LLVMValueRef value) {
  return cast<ShuffleVectorInst>(unwrap(value))->getShuffleMask().size();
}

bool cp_is_nontemporal(LLVMValueRef value) {
  return instruction(value)->hasMetadata(LLVMContext::MD_nontemporal);
}

// The type of memory operand `index` of inline assembly, where the constraint is indirect.
LLVMTypeRef cp_element_type(LLVMValueRef call, unsigned index) {
  return wrap(cast<CallBase>(unwrap(call))->getParamElementType(index));
}

// ---- debug information ---------------------------------------------------------------------

void cp_debug_types(LLVMModuleRef module, void (*report)(void *, LLVMMetadataRef),
                    void *context) {
  DebugInfoFinder finder;
  finder.processModule(*unwrap(module));
  for (DIType *type : finder.types())
    report(context, handle(type));
}

unsigned cp_di_tag(LLVMMetadataRef node) {
  auto *di = metadata<DINode>(node);
  return di ? di->getTag() : 0;
}
Text cp_di_name(LLVMMetadataRef node) {
  if (auto *type = metadata<DIType>(node))
    return text(type->getName());
  if (auto *scope = metadata<DIScope>(node))
    return text(scope->getName());
  if (auto *variable = metadata<DIVariable>(node))
    return text(variable->getName());
  return {"", 0};
}
LLVMMetadataRef cp_di_scope(LLVMMetadataRef node) {
  if (auto *scope = metadata<DIScope>(node))
    return handle(scope->getScope());
  return nullptr;
}
LLVMMetadataRef cp_di_base(LLVMMetadataRef node) {
  if (auto *derived = metadata<DIDerivedType>(node))
    return handle(derived->getBaseType());
  if (auto *composite = metadata<DICompositeType>(node))
    return handle(composite->getBaseType());
  return nullptr;
}
unsigned cp_di_element_count(LLVMMetadataRef node) {
  if (auto *composite = metadata<DICompositeType>(node))
    return composite->getElements().size();
  if (auto *function = metadata<DISubroutineType>(node))
    return function->getTypeArray().size();
  return 0;
}
LLVMMetadataRef cp_di_element(LLVMMetadataRef node, unsigned index) {
  if (auto *composite = metadata<DICompositeType>(node))
    return handle(composite->getElements()[index]);
  if (auto *function = metadata<DISubroutineType>(node))
    return handle(function->getTypeArray()[index]);
  return nullptr;
}
bool cp_di_declaration(LLVMMetadataRef node) {
  auto *type = metadata<DIType>(node);
  return type && type->isForwardDecl();
}
bool cp_di_static(LLVMMetadataRef node) {
  auto *type = metadata<DIType>(node);
  return type && type->isStaticMember();
}
uint64_t cp_di_size_bits(LLVMMetadataRef node) {
  auto *type = metadata<DIType>(node);
  return type ? type->getSizeInBits() : 0;
}
uint64_t cp_di_offset_bits(LLVMMetadataRef node) {
  auto *type = metadata<DIType>(node);
  return type ? type->getOffsetInBits() : 0;
}
// Elements of one dimension of an array; 0 if it is not constant.
uint64_t cp_di_subrange_count(LLVMMetadataRef node) {
  auto *range = metadata<DISubrange>(node);
  if (!range)
    return 0;
  auto count = range->getCount();
  if (auto *number = dyn_cast_if_present<ConstantInt *>(count))
    return number->isNegative() ? 0 : number->getZExtValue();
  return 0;
}
unsigned cp_di_line(LLVMMetadataRef node) {
  if (auto *type = metadata<DIType>(node))
    return type->getLine();
  if (auto *function = metadata<DISubprogram>(node))
    return function->getLine();
  if (auto *variable = metadata<DIVariable>(node))
    return variable->getLine();
  return 0;
}
LLVMMetadataRef cp_di_file(LLVMMetadataRef node) {
  if (auto *scope = metadata<DIScope>(node))
    return handle(scope->getFile());
  if (auto *variable = metadata<DIVariable>(node))
    return handle(variable->getFile());
  return nullptr;
}
Text cp_di_filename(LLVMMetadataRef node) {
  auto *file = metadata<DIFile>(node);
  return file ? text(file->getFilename()) : Text{"", 0};
}
Text cp_di_directory(LLVMMetadataRef node) {
  auto *file = metadata<DIFile>(node);
  return file ? text(file->getDirectory()) : Text{"", 0};
}

LLVMMetadataRef cp_debug_location(LLVMValueRef value) {
  return handle(instruction(value)->getDebugLoc().get());
}
unsigned cp_location_line(LLVMMetadataRef node) { return metadata<DILocation>(node)->getLine(); }
unsigned cp_location_column(LLVMMetadataRef node) {
  return metadata<DILocation>(node)->getColumn();
}
LLVMMetadataRef cp_location_scope(LLVMMetadataRef node) {
  return handle(metadata<DILocation>(node)->getScope());
}
LLVMMetadataRef cp_location_inlined_at(LLVMMetadataRef node) {
  return handle(metadata<DILocation>(node)->getInlinedAt());
}
LLVMMetadataRef cp_scope_subprogram(LLVMMetadataRef node) {
  auto *scope = metadata<DILocalScope>(node);
  return scope ? handle(scope->getSubprogram()) : nullptr;
}

LLVMMetadataRef cp_subprogram(LLVMValueRef value) {
  return handle(unwrap<Function>(value)->getSubprogram());
}
LLVMMetadataRef cp_global_variable(LLVMValueRef value) {
  SmallVector<DIGlobalVariableExpression *> all;
  unwrap<GlobalVariable>(value)->getDebugInfo(all);
  return all.empty() ? nullptr : handle(all[0]->getVariable());
}

Text cp_producer(LLVMModuleRef module) {
  for (DICompileUnit *unit : unwrap(module)->debug_compile_units())
    return text(unit->getProducer());
  return {"", 0};
}

} // extern "C"
