// The plugin itself, and the passes of LLVM that it runs.

#include "shim.h"
#include "llvm/Analysis/InlineCost.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Utils/Cloning.h"

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

// Scalar replacement without a change of the control flow, whatever the function's attributes.
void cp_promote(LLVMValueRef value, void *analyses) {
  auto &function = *unwrap<Function>(value);
  auto &manager = *static_cast<FunctionAnalysisManager *>(analyses);
  SROAPass(SROAOptions::PreserveCFG).run(function, manager);
  manager.clear(function, function.getName());
}

// Inlines the helpers of the compiler's and the C library's headers (always_inline, and either
// artificial or without debug information) wherever they are called, so that what they do belongs
// to the line that calls them.
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

} // extern "C"
