// Functions, blocks, instructions and constants.

#include "shim.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Operator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

extern "C" {

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

} // extern "C"
