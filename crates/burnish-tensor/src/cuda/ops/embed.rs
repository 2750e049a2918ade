//! Rows of a table, by id, and the gradient of the table. Also the rows of an activation (gather).

use std::sync::Arc;

use crate::{
    Precision,
    cuda::{
        Buffer, Cuda, int,
        launch_shape::LaunchShape,
        modules::Program::Gather,
        values::{Elements, ElementsMut, Values},
    },
};

/// Ids on the GPU.
#[derive(Debug)]
pub(crate) struct Ids {
    ids: Buffer<i32>,
    /// All ids are below this.
    bound: usize,
}

impl Ids {
    /// # Panics
    /// If an id is not below `bound`, because the kernels would read beyond the table.
    pub(crate) fn upload(cuda: &Arc<Cuda>, ids: &[u32], bound: usize) -> Self {
        let mut uploaded = Ids { ids: Buffer::uninit(cuda, ids.len()), bound };
        uploaded.fill(ids);
        uploaded
    }

    /// Uploads other ids; behind them 0.
    ///
    /// # Panics
    /// If there is no room, or as [`Ids::upload`].
    pub(crate) fn fill(&mut self, ids: &[u32]) {
        let bound = self.bound;
        assert!(ids.iter().all(|&id| (id as usize) < bound), "an id is not below {bound}");
        self.ids.fill(ids.iter().map(|&id| id as i32).collect(), 0);
    }
}

/// Where the rows of a gradient go: for each id that occurs, the rows that are added to it, in ascending order.
#[derive(Debug)]
pub(crate) struct Scatter {
    ids: Buffer<i32>,
    first: Buffer<i32>,
    places: Buffer<i32>,
    bound: usize,
}

impl Scatter {
    /// # Panics
    /// If an id is not below `bound`.
    pub(crate) fn upload(cuda: &Arc<Cuda>, ids: &[u32], bound: usize) -> Self {
        assert!(ids.iter().all(|&id| (id as usize) < bound), "an id is not below {bound}");
        let (ids, first, places) = group(ids);
        let [ids, first, places] = [ids, first, places].map(|list| Buffer::upload(cuda, &list));
        Scatter { ids, first, places, bound }
    }
}

/// The distinct ids, ascending; for each the start of its places, and at the end their total number; the places.
fn group(ids: &[u32]) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let mut places: Vec<i32> = (0..ids.len() as i32).collect();
    places.sort_by_key(|&place| ids[place as usize]);
    let (mut distinct, mut first) = (Vec::new(), Vec::new());
    for (index, &place) in places.iter().enumerate() {
        let id = ids[place as usize] as i32;
        if distinct.last() != Some(&id) {
            distinct.push(id);
            first.push(index as i32);
        }
    }
    first.push(places.len() as i32);
    (distinct, first, places)
}

/// `[ids, cols]`: rows of `table` `[_, cols]`, in the type of the precision's values.
pub(crate) fn forward(
    cuda: &Arc<Cuda>,
    precision: Precision,
    table: Elements<'_>,
    cols: usize,
    ids: &Ids,
) -> Values {
    assert!(table.len() >= ids.bound * cols, "a table of {} rows", ids.bound);
    let rows = ids.ids.len();
    let mut out = Values::uninit(cuda, precision, rows * cols);
    let name = match precision {
        Precision::F32 => table.kernel(["gather_f32", "gather_widened"]),
        Precision::Bf16 => table.kernel(["gather_rounded", "gather_bf16"]),
    };
    let arguments = &mut [out.all_mut().into(), table.into(), ids.ids.all().into(), int(cols)];
    cuda.launch(Gather, name, LaunchShape::rows(rows, cols), arguments);
    out
}

/// Adds row `i` of `d_out` to row `ids[i]` of `d_table`, which is f32, or bf16 like `d_out`.
pub(crate) fn backward<'t>(
    cuda: &Arc<Cuda>,
    d_table: impl Into<ElementsMut<'t>>,
    cols: usize,
    scatter: &Scatter,
    d_out: Elements<'_>,
) {
    let d_table = d_table.into();
    let Scatter { ids, first, places, bound } = scatter;
    assert!(d_table.len() >= bound * cols, "a table of {bound} rows");
    assert_eq!(d_out.len(), places.len() * cols, "one row for each id");
    let lists = [ids.all().into(), first.all().into(), places.all().into()];
    let [ids_list, first, places] = lists;
    let name = match &d_table {
        ElementsMut::F32(_) => d_out.kernel(["scatter_add_f32", "scatter_add_widened"]),
        ElementsMut::Bf16(_) => "scatter_add_bf16",
    };
    let arguments = &mut [d_table.into(), d_out.into(), ids_list, first, places, int(cols)];
    cuda.launch(Gather, name, LaunchShape::blocks(ids.len(), cols.div_ceil(256), 256), arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::testing::{PRECISIONS, device, rounded},
        ops,
        testing::{random, random_ids},
    };

    #[test]
    fn places_are_grouped_by_id_in_ascending_order() {
        assert_eq!(group(&[5, 2, 5, 9, 2]), (vec![2, 5, 9], vec![0, 2, 4, 5], vec![1, 4, 0, 2, 3]));
        assert_eq!(group(&[]), (vec![], vec![0], vec![]));
    }

    #[test]
    fn rows_and_their_gradients_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        for (bound, cols, n) in [(5, 3, 12), (3, 300, 40), (4, 1, 0)] {
            let table = random(1, bound * cols);
            let ids = random_ids(2, n, bound);
            let d_out = random(3, n * cols);
            let list = Ids::upload(&cuda, &ids, bound);
            let scatter = Scatter::upload(&cuda, &ids, bound);
            for (kept, _) in PRECISIONS {
                for (precision, _) in PRECISIONS {
                    let on_gpu = Values::upload(&cuda, kept, &table);
                    let out = forward(&cuda, precision, on_gpu.all(), cols, &list).download().unwrap();
                    let table = rounded(precision, rounded(kept, table.clone()));
                    assert_eq!(out, *ops::embed::forward(table.as_slice().into(), cols, &ids));
                }
            }
            // The gradient of a table is f32; that of an activation has the activation's type.
            for (given, of_table) in [
                (Precision::F32, Precision::F32),
                (Precision::Bf16, Precision::F32),
                (Precision::Bf16, Precision::Bf16),
            ] {
                let d_out = rounded(given, d_out.clone());
                let mut d_table = Values::zeros(&cuda, of_table, table.len());
                let d = Values::upload(&cuda, given, &d_out);
                backward(&cuda, d_table.all_mut(), cols, &scatter, d.all());
                let mut expected = vec![0.0; table.len()];
                ops::embed::backward(&mut expected, cols, &ids, &d_out);
                assert_eq!(d_table.download().unwrap(), rounded(of_table, expected));
            }
        }
    }

    #[test]
    fn an_id_beyond_the_table_is_refused() {
        let Some(cuda) = device() else { return };
        assert!(std::panic::catch_unwind(|| Ids::upload(&cuda, &[3], 3)).is_err());
    }
}
