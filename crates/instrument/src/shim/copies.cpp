// Copies of functions, and what their attributes and calls must lose.

#include "shim.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

using namespace llvm;

namespace {

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

} // namespace

extern "C" {

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
       {"instrument-function-entry", "instrument-function-exit",
        "instrument-function-entry-inlined", "instrument-function-exit-inlined",
        "fentry-call", "mrecord-mcount", "mnop-mcount",
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

} // extern "C"
