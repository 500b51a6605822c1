// Reading debug information.

#include "shim.h"
#include "llvm/IR/DebugInfo.h"

using namespace llvm;

extern "C" {

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
