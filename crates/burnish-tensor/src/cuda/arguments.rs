//! Arguments of kernels, checked against the kernels' source before every launch, because the driver takes them
//! untyped.

use std::ffi::c_void;

use super::buffer::{Element, Slice, SliceMut};

/// The type of a number in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    F32,
    F64,
    Bf16,
    I32,
    U32,
    I64,
    U64,
    U8,
}

impl Scalar {
    fn parse(name: &str) -> Option<Scalar> {
        Some(match name {
            "float" => Scalar::F32,
            "double" => Scalar::F64,
            "bf16" => Scalar::Bf16,
            "int" => Scalar::I32,
            "u32" => Scalar::U32,
            "i64" => Scalar::I64,
            "u64" => Scalar::U64,
            "u8" => Scalar::U8,
            _ => return None,
        })
    }
}

/// The type of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Value(Scalar),
    Pointer {
        to: Scalar,
        is_const: bool,
    },
    /// What the copy engine of cards from 9.0 on needs to know of a matrix (`MAP` in the kernels).
    Map,
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument {
    parameter: Parameter,
    /// The value as the kernel takes it, in the first bytes.
    bits: [u64; 16],
}

impl Argument {
    fn of(parameter: Parameter, bits: u64) -> Self {
        let mut argument = Argument { parameter, bits: [0; 16] };
        argument.bits[0] = bits;
        argument
    }

    fn value(scalar: Scalar, bits: u64) -> Self {
        Argument::of(Parameter::Value(scalar), bits)
    }

    pub(super) fn map(bits: [u64; 16]) -> Self {
        Argument { parameter: Parameter::Map, bits }
    }

    /// A null pointer, for an optional argument of a kernel.
    pub(crate) fn null<T: Element>() -> Self {
        Argument::of(Parameter::Pointer { to: T::SCALAR, is_const: false }, 0)
    }

    /// Is it valid for `parameter`? A buffer that may be written may also be read.
    fn fits(&self, parameter: Parameter) -> bool {
        match (self.parameter, parameter) {
            (Parameter::Pointer { to, is_const }, Parameter::Pointer { to: wanted, is_const: reads }) => {
                to == wanted && (reads || !is_const)
            }
            (own, wanted) => own == wanted,
        }
    }

    /// The address from which the driver reads it.
    pub(crate) fn address(&mut self) -> *mut c_void {
        (&raw mut self.bits).cast()
    }
}

impl From<f32> for Argument {
    fn from(x: f32) -> Self {
        Argument::value(Scalar::F32, u64::from(x.to_bits()))
    }
}

impl From<u32> for Argument {
    fn from(x: u32) -> Self {
        Argument::value(Scalar::U32, u64::from(x))
    }
}

impl From<i32> for Argument {
    fn from(x: i32) -> Self {
        Argument::value(Scalar::I32, u64::from(x as u32))
    }
}

impl From<i64> for Argument {
    fn from(x: i64) -> Self {
        Argument::value(Scalar::I64, x as u64)
    }
}

impl From<u64> for Argument {
    fn from(x: u64) -> Self {
        Argument::value(Scalar::U64, x)
    }
}

impl<T: Element> From<Slice<'_, T>> for Argument {
    fn from(slice: Slice<'_, T>) -> Self {
        let parameter = Parameter::Pointer { to: T::SCALAR, is_const: true };
        Argument::of(parameter, slice.address())
    }
}

impl<T: Element> From<SliceMut<'_, T>> for Argument {
    fn from(slice: SliceMut<'_, T>) -> Self {
        let parameter = Parameter::Pointer { to: T::SCALAR, is_const: false };
        Argument::of(parameter, slice.address())
    }
}

/// A size that a kernel takes as `int`.
///
/// # Panics
/// If it is 2³¹ or more.
#[expect(clippy::expect_used, reason = "documented: no model has such sizes")]
pub(crate) fn int(size: usize) -> Argument {
    i32::try_from(size).expect("a size below 2^31").into()
}

/// A size that a kernel takes as `i64`.
pub(crate) fn long(size: usize) -> Argument {
    (size as i64).into()
}

/// What a source says of a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<Parameter>,
    /// Does it wait for earlier work before it does anything else?
    pub(crate) waits: bool,
}

/// The statement that a kernel waits with, if it is the first one: nothing can touch memory before it.
const WAIT: &str = "wait_for_earlier_work();";

/// The kernels in a source, each from its `KERNEL(threads, name, parameters...) { ...`.
pub(crate) fn kernels(source: &str) -> Vec<Declared<'_>> {
    source.match_indices("\nKERNEL(").filter_map(|(at, start)| kernel(&source[at + start.len()..])).collect()
}

fn kernel(text: &str) -> Option<Declared<'_>> {
    let (inner, rest) = text.split_once(')')?;
    let mut parts = inner.split(',').map(str::trim);
    let _threads = parts.next()?;
    let name = parts.next()?;
    let parameters = parts.map(parameter).collect::<Option<_>>()?;
    let body = rest.trim_start().strip_prefix('{')?;
    Some(Declared { name, parameters, waits: body.trim_start().starts_with(WAIT) })
}

/// Parses a parameter such as `const float* x`.
fn parameter(text: &str) -> Option<Parameter> {
    let (kind, _name) = text.rsplit_once(' ')?;
    if kind == "MAP" {
        return Some(Parameter::Map);
    }
    let (is_const, kind) = match kind.strip_prefix("const ") {
        Some(kind) => (true, kind),
        None => (false, kind),
    };
    match kind.strip_suffix('*') {
        Some(kind) => Some(Parameter::Pointer { to: Scalar::parse(kind)?, is_const }),
        None => Some(Parameter::Value(Scalar::parse(kind)?)),
    }
}

/// # Panics
/// If the arguments are not those of the kernel.
pub(crate) fn check(name: &str, parameters: &[Parameter], arguments: &[Argument]) {
    assert_eq!(parameters.len(), arguments.len(), "number of arguments of kernel {name}");
    for (index, (&parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        let own = argument.parameter;
        assert!(argument.fits(parameter), "argument {index} of kernel {name} is {own:?}, not {parameter:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::modules::FILES;

    #[test]
    fn every_kernel_of_every_file_is_understood() {
        for (name, source) in FILES {
            assert_eq!(kernels(source).len(), source.matches("\nKERNEL(").count(), "in {name}");
            assert!(!kernels(source).is_empty(), "in {name}");
            let waiting = kernels(source).iter().filter(|kernel| kernel.waits).count();
            assert_eq!(waiting, source.matches(WAIT).count(), "kernels that wait first in {name}");
        }
        let source = "\nKERNEL(256, f, const bf16* x,\n       double* y, i64 n, u32 bits) {\n}";
        let pointer = |to, is_const| Parameter::Pointer { to, is_const };
        let expected = vec![
            pointer(Scalar::Bf16, true),
            pointer(Scalar::F64, false),
            Parameter::Value(Scalar::I64),
            Parameter::Value(Scalar::U32),
        ];
        let waits = |body: &str| {
            let source = source.replace('{', body);
            let mut kernels = kernels(&source);
            assert_eq!((kernels[0].name, &kernels[0].parameters), ("f", &expected));
            kernels.remove(0).waits
        };
        assert!(waits("{ wait_for_earlier_work();") && waits("\n{\n    wait_for_earlier_work(); f();"));
        assert!(!waits("{") && !waits("{ y[0] = 0; wait_for_earlier_work();"));
        assert!(!waits("{ // wait_for_earlier_work();") && !waits("{ if (n) wait_for_earlier_work();"));
    }

    #[test]
    fn arguments_of_another_type_are_refused() {
        let source = "\nKERNEL(256, f, float* out, const float* x, i64 n) {";
        let parameters = kernels(source).remove(0).parameters;
        let null = Argument::null::<f32>();
        check("f", &parameters, &[null, null, 3_i64.into()]);
        let refused =
            |arguments: &[Argument]| std::panic::catch_unwind(|| check("f", &parameters, arguments)).is_err();
        assert!(refused(&[null, null]));
        assert!(refused(&[null, null, 3_i32.into()]));
        assert!(refused(&[null, Argument::null::<i32>(), 3_i64.into()]));
        let read_only = Argument::of(Parameter::Pointer { to: Scalar::F32, is_const: true }, 0);
        assert!(refused(&[read_only, null, 3_i64.into()]));
    }
}
