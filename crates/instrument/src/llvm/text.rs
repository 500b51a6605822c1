//! Constants that are text.

use super::{Value, bytes, ffi, shim};
use llvm_sys::core::{LLVMGetAsString, LLVMIsAGlobalVariable, LLVMIsConstantString};

impl Value {
    /// What a constant variable holds, if that is a string, without its end.
    pub fn constant_text(self) -> Option<Vec<u8>> {
        let global = Value::some(ffi!(LLVMIsAGlobalVariable(self.0)))?;
        let text = global
            .initializer()
            .filter(|_| global.is_global_constant())?;
        if ffi!(LLVMIsConstantString(text.0)) == 0 {
            return None;
        }
        let mut length = 0;
        let start = ffi!(LLVMGetAsString(text.0, &raw mut length));
        let text = bytes(shim::Text {
            data: start.cast(),
            length,
        });
        let end = text.iter().position(|byte| *byte == 0)?;
        Some(text[..end].to_vec())
    }
}
