//! What the kernels are compiled for: the card's own code, or PTX, which the driver compiles for cards that are newer
//! than NVRTC.

use cudarc::nvrtc::sys as nvrtc_sys;

use super::CudaError;

/// A kind of code that NVRTC makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// Code for cards of this compute capability: 90 is 9.0.
    Cubin(i32),
    /// An assembly language for cards of this compute capability and all later ones.
    Ptx(i32),
}

impl Target {
    /// The target for a card, from what NVRTC is able to compile for.
    ///
    /// # Errors
    /// If NVRTC knows only newer cards.
    pub(crate) fn of((major, minor): (i32, i32), supported: &[i32]) -> Result<Target, CudaError> {
        let card = 10 * major + minor;
        match supported.iter().copied().filter(|&known| known <= card).max() {
            Some(known) if known == card => Ok(Target::Cubin(known)),
            Some(older) => Ok(Target::Ptx(older)),
            None => Err(CudaError::Capability {
                capability: (major, minor),
                oldest: supported.iter().copied().min().unwrap_or(0),
            }),
        }
    }

    /// NVRTC's name for it.
    pub(crate) fn architecture(self) -> String {
        match self {
            Target::Cubin(known) => format!("sm_{known}"),
            Target::Ptx(known) => format!("compute_{known}"),
        }
    }

    /// Does `wait_for_earlier_work` of common.cuh wait?
    pub(crate) fn can_wait(self) -> bool {
        let (Target::Cubin(known) | Target::Ptx(known)) = self;
        known >= 90
    }

    /// The suffix of its files.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Target::Cubin(_) => "cubin",
            Target::Ptx(_) => "ptx",
        }
    }
}

/// The compute capabilities that NVRTC compiles for: 75, 80, ...
pub(crate) fn supported() -> Result<Vec<i32>, CudaError> {
    let failed = || CudaError::nvrtc("asking NVRTC for the cards that it knows");
    let mut count = 0;
    // SAFETY: the pointer is valid.
    unsafe { nvrtc_sys::nvrtcGetNumSupportedArchs(&mut count) }.result().map_err(failed())?;
    let mut supported = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for the number of elements that NVRTC has said.
    unsafe { nvrtc_sys::nvrtcGetSupportedArchs(supported.as_mut_ptr()) }.result().map_err(failed())?;
    Ok(supported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_gets_its_own_code_or_ptx_of_the_latest_known_one_before_it() {
        let of_13 = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];
        for card in [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)] {
            assert_eq!(Target::of(card, &of_13), Ok(Target::Cubin(10 * card.0 + card.1)));
        }
        assert_eq!(Target::of((12, 2), &of_13), Ok(Target::Ptx(121)));
        // Out of order, and without the cards of 2025.
        assert_eq!(Target::of((12, 0), &[90, 80, 75]), Ok(Target::Ptx(90)));
        let error = Target::of((7, 0), &of_13).unwrap_err().to_string();
        assert!(error.contains("7.0") && error.contains("7.5") && error.contains("CUDA 12"), "{error}");
        assert_eq!(Target::Cubin(90).architecture(), "sm_90");
        assert_eq!(Target::Ptx(121).architecture(), "compute_121");
        // On a card of 9.0 whose NVRTC is too old.
        assert!(!Target::of((9, 0), &[75, 80]).unwrap().can_wait() && Target::Cubin(90).can_wait());
    }
}
