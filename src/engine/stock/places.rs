//! Which pixels meet in a convolution, a pool or a mean, as lists of places.

use crate::engine::kernels::{Conv, Window};
use crate::engine::ops::grouped::Grouped;
use crate::engine::plan::Slide;

/// A kernel or window that slides over an image; pairs are (rows, columns).
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliding {
    pub image: (usize, usize),
    pub out: (usize, usize),
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub padding: (usize, usize),
    pub dilation: (usize, usize),
}

impl From<&Conv> for Sliding {
    fn from(conv: &Conv) -> Self {
        Self {
            image: (conv.height, conv.width),
            out: (conv.out_height, conv.out_width),
            kernel: conv.kernel,
            stride: conv.stride,
            padding: conv.padding,
            dilation: (1, 1),
        }
    }
}

impl From<&Window> for Sliding {
    fn from(window: &Window) -> Self {
        Self {
            image: (window.height, window.width),
            out: (window.out_height, window.out_width),
            kernel: window.kernel,
            stride: window.stride,
            padding: window.padding,
            dilation: (1, 1),
        }
    }
}

impl From<&Grouped> for Sliding {
    fn from(grouped: &Grouped) -> Self {
        let Slide { kernel, stride, padding, dilation, .. } = grouped.slide;
        let (image, out) = ((grouped.height, grouped.width), (grouped.out_height, grouped.out_width));
        Self { image, out, kernel, stride, padding, dilation }
    }
}

impl Sliding {
    pub fn outputs(&self) -> usize {
        self.out.0 * self.out.1
    }
    pub fn area(&self) -> usize {
        self.kernel.0 * self.kernel.1
    }
    /// Whether a kernel somewhere meets the border, or reaches beyond an image whose output size was rounded up.
    pub fn padded(&self) -> bool {
        let beyond = |out: usize, stride: usize, kernel: usize, dilation: usize, padding: usize, size: usize| {
            padding > 0 || (out - 1) * stride + (kernel - 1) * dilation >= size
        };
        beyond(self.out.0, self.stride.0, self.kernel.0, self.dilation.0, self.padding.0, self.image.0)
            || beyond(self.out.1, self.stride.1, self.kernel.1, self.dilation.1, self.padding.1, self.image.1)
    }
    /// The pixel that a place of the kernel meets for an output; absent in the border.
    pub fn meet(&self, output: usize, tap: usize) -> Option<usize> {
        let (y, x) = (output / self.out.1, output % self.out.1);
        let (i, j) = (tap / self.kernel.1, tap % self.kernel.1);
        let row = (y * self.stride.0 + i * self.dilation.0).checked_sub(self.padding.0).filter(|&row| row < self.image.0)?;
        let column = (x * self.stride.1 + j * self.dilation.1).checked_sub(self.padding.1).filter(|&column| column < self.image.1)?;
        Some(row * self.image.1 + column)
    }
    /// For each sample, output and place of the kernel the pixel of the batch; pixel 0 stands for the border.
    pub fn patches(&self, rows: usize) -> Vec<usize> {
        let pixels = self.image.0 * self.image.1;
        let mut places = Vec::with_capacity(rows * self.outputs() * self.area());
        for row in 0..rows {
            for output in 0..self.outputs() {
                places.extend((0..self.area()).map(|tap| self.meet(output, tap).map_or(0, |pixel| row * pixels + pixel)));
            }
        }
        places
    }
    /// 1 for each of [`Sliding::patches`] that is a pixel, 0 for the border.
    pub fn inside(&self, rows: usize) -> Vec<f32> {
        let once = (0..self.outputs() * self.area()).map(|at| f32::from(u8::from(self.meet(at / self.area(), at % self.area()).is_some())));
        let once: Vec<f32> = once.collect();
        once.iter().copied().cycle().take(rows * once.len()).collect()
    }
    /// For each sample and output the pixel that one place of the kernel meets.
    pub fn tap(&self, rows: usize, tap: usize) -> Vec<usize> {
        let pixels = self.image.0 * self.image.1;
        (0..rows * self.outputs())
            .map(|at| self.meet(at % self.outputs(), tap).map_or(0, |pixel| at / self.outputs() * pixels + pixel))
            .collect()
    }
    /// 0 for each of [`Sliding::tap`] that is a pixel, minus infinity for the border.
    pub fn beyond(&self, rows: usize, tap: usize) -> Vec<f32> {
        (0..rows * self.outputs()).map(|at| if self.meet(at % self.outputs(), tap).is_some() { 0.0 } else { f32::NEG_INFINITY }).collect()
    }
}
