//! Greedy traversal clustering: chunks in the order of a walk along neighbours.

use std::collections::BTreeSet;

use burnish_core::rng::{Address, Purpose, Stream};

/// Walks from chunk to chunk, each time to the nearest one that is in no cluster yet; where there is none, or a
/// cluster has `size` chunks, a new cluster starts at a chunk that `seed` draws.
///
/// `knn` are the neighbours of each chunk, nearest first. Every chunk is in exactly one cluster, none has more than
/// `size`, and each chunk but a cluster's first is a neighbour of the one before it.
pub fn traverse(knn: &[Vec<usize>], size: usize, seed: u64) -> Vec<Vec<usize>> {
    let size = size.max(1);
    let mut starts: Vec<usize> = (0..knn.len()).collect();
    Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut starts);
    let mut unseen: BTreeSet<usize> = starts.iter().copied().collect();
    let mut clusters = Vec::new();
    for start in starts {
        if !unseen.remove(&start) {
            continue;
        }
        let mut cluster = vec![start];
        let mut current = start;
        while cluster.len() < size {
            let Some(next) = knn[current].iter().copied().find(|next| unseen.contains(next)) else { break };
            unseen.remove(&next);
            cluster.push(next);
            current = next;
        }
        clusters.push(cluster);
    }
    clusters
}

/// Dissolves clusters of fewer than `size` chunks: each of their chunks is put behind its nearest neighbour in another
/// cluster. A chunk that has no neighbour elsewhere, even once others have moved, goes where the first of them went.
///
/// No chunk is lost or doubled, and a cluster that is still too small has no chunk with a neighbour outside it.
pub fn merge(mut clusters: Vec<Vec<usize>>, knn: &[Vec<usize>], size: usize) -> Vec<Vec<usize>> {
    let mut home = vec![0; knn.len()];
    for (number, cluster) in clusters.iter().enumerate() {
        cluster.iter().for_each(|chunk| home[*chunk] = number);
    }
    // A chunk may join a cluster that could not be dissolved before, and give it a way out. Each dissolution leaves one
    // cluster fewer, so this ends.
    while (0..clusters.len()).fold(false, |any, number| {
        let small = !clusters[number].is_empty() && clusters[number].len() < size;
        (small && dissolve(number, &mut clusters, &mut home, knn)) || any
    }) {}
    clusters.retain(|cluster| !cluster.is_empty());
    clusters
}

/// Moves the chunks of a cluster to their neighbours in others; `false`, with nothing done, if there is no such
/// neighbour.
fn dissolve(number: usize, clusters: &mut [Vec<usize>], home: &mut [usize], knn: &[Vec<usize>]) -> bool {
    let mut waiting = clusters[number].clone();
    let mut first_moved = None;
    loop {
        let before = waiting.len();
        waiting.retain(|chunk| {
            let Some(near) = knn[*chunk].iter().copied().find(|near| home[*near] != number) else {
                return true;
            };
            first_moved.get_or_insert(*chunk);
            insert_behind(clusters, home, near, *chunk);
            false
        });
        if waiting.len() == before {
            break;
        }
    }
    let Some(first_moved) = first_moved else { return false };
    // Backwards, so that each lands in front of those that followed it.
    for chunk in waiting.into_iter().rev() {
        insert_behind(clusters, home, first_moved, chunk);
    }
    clusters[number].clear();
    true
}

fn insert_behind(clusters: &mut [Vec<usize>], home: &mut [usize], near: usize, chunk: usize) {
    home[chunk] = home[near];
    let cluster = &mut clusters[home[near]];
    let place = cluster.iter().position(|other| *other == near).map_or(cluster.len(), |place| place + 1);
    cluster.insert(place, chunk);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        // A chain 0-1-2-3-4, each with its successor as the only neighbour, and 5 that only knows 1.
        let knn = vec![vec![1], vec![2], vec![3], vec![4], vec![3], vec![1]];
        let clusters = vec![vec![0, 1, 2], vec![3, 4], vec![5]];
        // 3 and 4 know each other only, so they stay; 5 goes behind 1.
        assert_eq!(merge(clusters, &knn, 3), [vec![0, 1, 5, 2], vec![3, 4]]);
        // Both are full, or else 1 moves behind 2 and 0, which knows nobody, follows.
        let knn = vec![vec![], vec![2], vec![3], vec![2]];
        assert_eq!(merge(vec![vec![0, 1], vec![2, 3]], &knn, 2), [vec![0, 1], vec![2, 3]]);
        assert_eq!(merge(vec![vec![0, 1], vec![2, 3]], &knn, 3), [vec![2, 1, 0, 3]]);
    }

    fn neighbourhoods() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1usize..24).prop_flat_map(|count| {
            prop::collection::vec(prop::collection::vec(0..count, 0..6), count).prop_map(|mut knn| {
                for (own, near) in knn.iter_mut().enumerate() {
                    let mut seen = BTreeSet::from([own]);
                    near.retain(|other| seen.insert(*other));
                }
                knn
            })
        })
    }

    proptest! {
        #[test]
        fn clusters_are_walks_along_neighbours(knn in neighbourhoods(), size in 1usize..9, seed: u64) {
            let clusters = traverse(&knn, size, seed);
            prop_assert_eq!(&clusters, &traverse(&knn, size, seed));
            let mut all: Vec<usize> = clusters.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..knn.len()).collect::<Vec<_>>());
            for cluster in &clusters {
                prop_assert!(!cluster.is_empty() && cluster.len() <= size);
                prop_assert!(cluster.windows(2).all(|pair| knn[pair[0]].contains(&pair[1])));
            }
        }

        #[test]
        fn merging_keeps_every_chunk_once_and_leaves_no_small_cluster_that_has_a_way_out(
            knn in neighbourhoods(), size in 1usize..9, seed: u64,
        ) {
            let before = traverse(&knn, size, seed);
            let full: Vec<&Vec<usize>> = before.iter().filter(|cluster| cluster.len() == size).collect();
            let merged = merge(before.clone(), &knn, size);
            let mut all: Vec<usize> = merged.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..knn.len()).collect::<Vec<_>>());
            for cluster in merged.iter().filter(|cluster| cluster.len() < size) {
                prop_assert!(cluster.iter().all(|chunk| knn[*chunk].iter().all(|near| cluster.contains(near))));
            }
            // Clusters that were full keep their chunks, in their order.
            for cluster in full {
                let kept = merged.iter().find(|merged| merged.contains(&cluster[0])).unwrap();
                let order: Vec<usize> = kept.iter().copied().filter(|chunk| cluster.contains(chunk)).collect();
                prop_assert_eq!(&order, cluster);
            }
        }
    }
}
