//! What is true of a task.

use burnish_core::Task;
use serde::{Deserialize, Serialize};

use super::ID;
use super::plan::Plan;
use super::table::{Order, Table};
use crate::EnvError;
use crate::tasks::{foreign, read};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The table, in this task's order.
    pub table: Table,
    /// The question.
    pub question: String,
    /// The gold plan. Of a real table a proxy: one step that reads the smallest product of rows and columns with all
    /// cells of [`Self::proxy`].
    pub gold: Plan,
    /// The right answer. Of a real table as its file gives it; nothing is compared with it.
    pub answer: String,
    /// Of a real table: the cells that weak supervision marks, as pairs of row and column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Vec<(usize, usize)>>,
    /// The id of the task that this one is a version of; its own if it is in the original order.
    pub original: String,
    /// This task's order of the original's rows and columns.
    pub order: Order,
}

impl Truth {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub fn of(task: &Task) -> Result<Self, EnvError> {
        let truth: Truth = read(ID, task)?;
        let (rows, columns) = truth.size();
        if truth.table.is_empty() || !truth.table.is_rectangular() {
            return Err(foreign(ID, task, "its table has no cells, or rows of different lengths"));
        }
        let fits = |step: &super::Step| (step.rows.len(), step.columns.len()) == (rows, columns);
        if truth.gold.0.is_empty() || !truth.gold.0.iter().all(fits) {
            return Err(foreign(ID, task, "its plan has no steps, or masks that do not fit the table"));
        }
        if !truth.order.fits(rows, columns) {
            return Err(foreign(ID, task, "its order is not one of the table's rows and columns"));
        }
        Ok(truth)
    }

    /// Rows and columns of the table.
    pub fn size(&self) -> (usize, usize) {
        (self.table.rows.len(), self.table.header.len())
    }

    /// The gold mask of each step, row by row.
    pub fn masks(&self) -> Vec<Vec<bool>> {
        self.gold.0.iter().map(super::Step::mask).collect()
    }

    /// Are the masks proxies by weak supervision?
    pub fn is_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// The same with the table's rows and columns in another order, and everything that refers to them. `None` if
    /// `order` is not an order of them.
    pub fn permuted(&self, order: &Order) -> Option<Truth> {
        let (rows, columns) = self.size();
        if !order.fits(rows, columns) {
            return None;
        }
        let place = |order: &[usize], was: usize| order.iter().position(|&at| at == was).unwrap_or(was);
        let proxy = self.proxy.as_ref().map(|cells| {
            let mut cells: Vec<(usize, usize)> = cells
                .iter()
                .map(|&(row, column)| (place(&order.rows, row), place(&order.columns, column)))
                .collect();
            cells.sort_unstable();
            cells
        });
        Some(Truth {
            table: self.table.permuted(order),
            question: self.question.clone(),
            gold: self.gold.permuted(order),
            answer: self.answer.clone(),
            proxy,
            original: self.original.clone(),
            order: Order {
                rows: super::table::ordered(&self.order.rows, &order.rows),
                columns: super::table::ordered(&self.order.columns, &order.columns),
            },
        })
    }
}
