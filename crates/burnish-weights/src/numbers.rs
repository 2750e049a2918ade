//! Stored numbers to f32 and back.
//!
//! Arithmetic is f32 whatever the storage, so that a result is rounded once. Conversions say whether every number was
//! finite; where one was not is looked up only then.

use half::f16;
use half::slice::HalfFloatSliceExt;
use safetensors::Dtype;

/// A type of numbers that can be combined. Other types are only copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    /// 32 bits.
    F32,
    /// Brain floating point, 16 bits: the upper half of an f32.
    Bf16,
    /// IEEE half precision, 16 bits.
    F16,
}

/// The exponent of infinities and of what is not a number.
const NOT_FINITE: u32 = 0x7f80_0000;

impl Float {
    /// The type that `dtype` is, if it can be combined.
    pub fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Float::F32),
            Dtype::BF16 => Some(Float::Bf16),
            Dtype::F16 => Some(Float::F16),
            _ => None,
        }
    }

    /// The type of this name, as torch, mergekit and safetensors write it.
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_prefix("torch.").unwrap_or(name).to_ascii_lowercase().as_str() {
            "float32" | "f32" | "float" => Some(Float::F32),
            "bfloat16" | "bf16" => Some(Float::Bf16),
            "float16" | "f16" | "half" => Some(Float::F16),
            _ => None,
        }
    }

    /// Its name in torch, as `config.json` has it.
    pub fn torch_name(self) -> &'static str {
        match self {
            Float::F32 => "float32",
            Float::Bf16 => "bfloat16",
            Float::F16 => "float16",
        }
    }

    /// Its name in safetensors.
    pub fn dtype(self) -> Dtype {
        match self {
            Float::F32 => Dtype::F32,
            Float::Bf16 => Dtype::BF16,
            Float::F16 => Dtype::F16,
        }
    }

    /// Bytes of one number.
    pub fn width(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::Bf16 | Float::F16 => 2,
        }
    }

    /// Reads little-endian numbers; returns whether all are finite. `bytes` holds exactly `out.len()` numbers.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) -> bool {
        match self {
            Float::F32 => {
                for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *out = f32::from_le_bytes(*bytes);
                }
            }
            Float::Bf16 => {
                for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *out = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
                }
            }
            Float::F16 => {
                let mut halves = [f16::ZERO; 256];
                for (out, bytes) in out.chunks_mut(256).zip(bytes.chunks(512)) {
                    let halves = &mut halves[..out.len()];
                    for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
                        *half = f16::from_le_bytes(*bytes);
                    }
                    halves.convert_to_f32_slice(out);
                }
            }
        }
        all_finite(out)
    }

    /// Writes numbers, rounded to the nearest, ties to even; returns whether all that was written is finite. `bytes` has
    /// room for exactly `values.len()` numbers.
    pub(crate) fn encode(self, values: &[f32], bytes: &mut [u8]) -> bool {
        match self {
            Float::F32 => {
                for (bytes, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                    *bytes = value.to_le_bytes();
                }
                all_finite(values)
            }
            Float::Bf16 => {
                let mut bad = 0;
                for (bytes, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                    let bits = value.to_bits();
                    // Half of the last kept place, less one if the kept part is even; a carry into the exponent is right.
                    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
                    // Not a number stays so even if its upper half alone would read as an infinity.
                    bad |= u32::from(bits & NOT_FINITE == NOT_FINITE)
                        | u32::from((rounded << 16) & NOT_FINITE == NOT_FINITE);
                    *bytes = (rounded as u16).to_le_bytes();
                }
                bad == 0
            }
            Float::F16 => {
                let mut halves = [f16::ZERO; 256];
                let mut is_finite = true;
                for (values, bytes) in values.chunks(256).zip(bytes.chunks_mut(512)) {
                    let halves = &mut halves[..values.len()];
                    halves.convert_from_f32_slice(values);
                    is_finite &= halves.iter().all(|half| half.is_finite());
                    for (bytes, half) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(halves.iter()) {
                        *bytes = half.to_le_bytes();
                    }
                }
                is_finite
            }
        }
    }
}

fn all_finite(values: &[f32]) -> bool {
    let mut bad = 0;
    for value in values {
        bad |= u32::from(value.to_bits() & NOT_FINITE == NOT_FINITE);
    }
    bad == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use proptest::prelude::*;

    #[test]
    fn every_16_bit_number_survives_a_round_trip() {
        for float in [Float::Bf16, Float::F16] {
            let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let mut values = vec![0.0; 1 << 16];
            assert!(!float.decode(&bytes, &mut values));
            let mut back = vec![0; bytes.len()];
            assert!(!float.encode(&values, &mut back));
            for (at, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                assert_eq!(back[2 * at..2 * at + 2], bytes[2 * at..2 * at + 2], "{value}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_seen() {
        let mut bytes = [0; 4];
        assert!(Float::F32.encode(&[f32::MAX], &mut bytes));
        assert!(!Float::Bf16.encode(&[f32::MAX], &mut bytes[..2]), "rounds up to infinity");
        assert!(!Float::F16.encode(&[65520.0], &mut bytes[..2]), "rounds up to infinity");
        assert!(Float::F16.encode(&[65519.0], &mut bytes[..2]));
        for float in [Float::F32, Float::Bf16, Float::F16] {
            for wrong in [f32::NAN, f32::INFINITY, -f32::INFINITY, f32::from_bits(0x7f80_0001)] {
                assert!(!float.encode(&[wrong], &mut bytes[..float.width()]), "{float:?} {wrong}");
            }
        }
    }

    #[test]
    fn names_are_those_of_torch_and_safetensors() {
        for float in [Float::F32, Float::Bf16, Float::F16] {
            assert_eq!(Float::named(float.torch_name()), Some(float));
            assert_eq!(Float::named(&float.dtype().to_string()), Some(float));
            assert_eq!(Float::of(float.dtype()), Some(float));
        }
        assert_eq!((Float::named("int8"), Float::of(Dtype::I8)), (None, None));
    }

    proptest! {
        #[test]
        fn rounding_is_that_of_the_half_crate(value: f32) {
            prop_assume!(value.is_finite());
            let mut bytes = [0; 2];
            Float::Bf16.encode(&[value], &mut bytes);
            prop_assert_eq!(bytes, bf16::from_f32(value).to_le_bytes());
            Float::F16.encode(&[value], &mut bytes);
            prop_assert_eq!(bytes, f16::from_f32(value).to_le_bytes());
        }
    }
}
