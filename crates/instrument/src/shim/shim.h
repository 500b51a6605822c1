// What the pass needs and LLVM's C interface lacks. No decisions are made here: each function does
// one thing to LLVM's data and the logic is in Rust. Handles are the C interface's own. The
// functions are declared for Rust in src/llvm/shim.rs.

#pragma once

#include "llvm-c/Core.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

// A string that lives as long as the module.
struct Text {
  const char *data;
  size_t length;
};

inline Text text(llvm::StringRef s) { return {s.data(), s.size()}; }

template <class T> T *metadata(LLVMMetadataRef node) {
  return llvm::dyn_cast_or_null<T>(llvm::unwrap(node));
}

inline LLVMMetadataRef handle(const llvm::Metadata *node) {
  return llvm::wrap(const_cast<llvm::Metadata *>(node));
}

inline llvm::Instruction *instruction(LLVMValueRef value) {
  return llvm::cast<llvm::Instruction>(llvm::unwrap(value));
}
