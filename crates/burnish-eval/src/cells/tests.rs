use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn overlap_is_a_share_and_a_mask_of_everything_gains_nothing_by_it(
        cells in prop::collection::vec((0.0_f64..1.0, any::<bool>()), 1..30),
    ) {
        let (attention, mask): (Vec<f64>, Vec<bool>) = cells.into_iter().unzip();
        let all = vec![true; mask.len()];
        prop_assert!((0.0..=1.0).contains(&overlap(&attention, &mask)));
        prop_assert!((0.0..=1.0).contains(&soft_iou(&attention, &mask)));
        if attention.iter().sum::<f64>() > 0.0 {
            prop_assert!((overlap(&attention, &all) - 1.0).abs() < 1e-12);
            // All within the mask.
            let inside: Vec<f64> = attention.iter().zip(&mask).map(|(a, m)| if *m { *a } else { 0.0 }).collect();
            let expected = if inside.iter().sum::<f64>() > 0.0 { 1.0 } else { 0.0 };
            prop_assert!((overlap(&inside, &mask) - expected).abs() < 1e-12);
        }
        prop_assert!((normalised(&attention).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let scores = standardised(&attention);
        prop_assert!(scores.iter().sum::<f64>().abs() < 1e-6 * scores.len() as f64);
    }

    #[test]
    fn auroc_counts_pairs_and_only_the_order_matters(
        cells in prop::collection::vec((0_u8..6, any::<bool>()), 1..30),
    ) {
        let attention: Vec<f64> = cells.iter().map(|(a, _)| f64::from(*a) / 7.0).collect();
        let mask: Vec<bool> = cells.iter().map(|(_, marked)| *marked).collect();
        let (mut pairs, mut won) = (0.0, 0.0);
        for (a, _) in cells.iter().filter(|(_, marked)| *marked) {
            for (b, _) in cells.iter().filter(|(_, marked)| !*marked) {
                pairs += 1.0;
                won += if a > b { 1.0 } else if a == b { 0.5 } else { 0.0 };
            }
        }
        let found = auroc(&attention, &mask);
        prop_assert_eq!(found.is_some(), pairs > 0.0);
        if let Some(found) = found {
            prop_assert!((found - won / pairs).abs() < 1e-12);
            let steeper: Vec<f64> = attention.iter().map(|a| (3.0 * a).exp() - 4.0).collect();
            prop_assert_eq!(auroc(&steeper, &mask), Some(found));
            prop_assert_eq!(auroc(&vec![0.3; mask.len()], &mask), Some(0.5));
            let perfect: Vec<f64> = mask.iter().map(|marked| f64::from(*marked)).collect();
            prop_assert_eq!(auroc(&perfect, &mask), Some(1.0));
        }
    }
}

#[test]
fn nothing_to_look_at_is_no_error() {
    assert_eq!(normalised(&[0.0, 0.0]), [0.5, 0.5]);
    assert_eq!(normalised(&[]), [0.0; 0]);
    assert_eq!(standardised(&[0.1, 0.1, 0.1]), [0.0; 3]);
    assert_eq!((overlap(&[0.0], &[true]), soft_iou(&[], &[])), (0.0, 1.0));
    assert_eq!((auroc(&[0.1, 0.2], &[true, true]), auroc(&[], &[])), (None, None));
}
