"""What the page of results says in words, around its tables."""

import dataclasses

from examples.paper.checks import Check, decide
from examples.paper.claims import (
    COST_FALLS_IN_TIME,
    COST_FALLS_WITH_THE_RATE,
    FURTHER_WITH_THE_RATE,
    GRADIENTS_EXPLODE,
    LONGER_IS_BETTER,
    SCALE_MATTERS,
)
from examples.paper.comparison import DIFFERS, HOLDS
from examples.paper.results import Run

INTRODUCTION = """\
# The paper's tables and figures, run again

Made by `python examples/paper/report.py` from the results in this folder, which
`python examples/paper/run.py` wrote; not by hand. The paper is Hou, Yao, Kwok:
*Loss-aware Binarization of Deep Networks*, ICLR 2017. Its numbers are single
runs.

How to read a cell: the **test** error or cross-entropy at the epoch that was
best on the validation part (of equal ones the later), as the authors do. Over
several seeds it is the mean ± the standard deviation. "Not run" means just
that. A raised number points to what is not as in the paper. Where a table is to
be read across (Tables 2 and 4, and that of schedules) all cells are at as many
epochs as the shortest finished run has. Figures 1 and 2 show the first seed of
each network; in Figure 1 an error of zero is a gap. In Figure 2 what is beyond
the outermost bins, or not finite, is counted in them.
"""

IN_SHORT = """
The numbers and reasons stand [further below](#what-agrees-and-why), with the
epochs and runs that each verdict rests on: mostly single runs. Two reasons in
short: before batch norm α has nothing to do in the forward pass, so that the
feedforward networks with binary weights can hardly differ; and what ran here is
often smaller or shorter than in the paper, as the notes say.
"""


@dataclasses.dataclass(frozen=True)
class Section:
    """An explanation, shown where the results are such that it is true.

    Args:
        text: The section, in Markdown.
        holds: What must hold.
        differs: What must not hold; to be undecided is not enough.
        file: The SHA-256 of a file that some run must be of.
    """

    text: str
    holds: tuple[Check, ...] = ()
    differs: tuple[Check, ...] = ()
    file: str | None = None

    def is_true(self, runs: list[Run]) -> bool:
        """Whether the results are such."""
        files = {
            digest
            for run in runs
            for digest in run.data.get("files", {}).values()
        }
        return (
            (self.file is None or self.file in files)
            and all(decide(check, runs)[0] == HOLDS for check in self.holds)
            and all(decide(check, runs)[0] == DIFFERS for check in self.differs)
        )


# The train_32x32.mat that the repository's own runs are of.
SVHN_AT_HAND = (
    "62508e7af0ecf66935e0bb6b17a0e2362e380c96b85f2a22d8b260bc66df756e"
)


WHY = (
    Section("""\
### Why the feedforward tables say little about α

In the paper's feedforward networks batch norm follows every binary layer. It
divides by the standard deviation of what it gets, and so takes any positive
factor out of it: in training, α·sign(w) and sign(w) give the same outputs, up
to the epsilon of batch norm. (In evaluation its averages mix the α of the last
few dozen steps.) What is left of α is the scale of the gradient, 1/α, of which
Adam takes out all that is constant. BinaryConnect, BWN and LAB are then the
same network, but for how α drifts while Adam averages, and for Adam's epsilon,
which weighs more where gradients are small. The paper's Table 1 does not say
otherwise. It has single runs, and a test error is known only up to its
standard error: 0.11 points for 1.2% of 10,000 images. Of the differences that
it has between BinaryConnect, BWN and LAB, on MNIST, CIFAR-10 and SVHN, none
reaches two standard errors, if two networks' errors are taken as independent.

α is put to the test where nothing normalizes: in the LSTM (Tables 3 and 4),
where in the paper BinaryConnect falls far behind, and in the MLP without batch
norm, which the paper did not run and this page adds. BWN and LAB differ only in
how much each weight counts in the average that is α.
"""),
    Section(
        """\
### Why BinaryConnect fails without batch norm

Its weights are ±1. In the MLP each layer then multiplies the signal by about
the root of its number of inputs. In the LSTM the gates bound the signal, but
not the gradient on its way back through time, which grows with every step: that
is the paper's explanation, and Figure 2 shows it. The α of BWN and LAB scales
both back. (In the table without batch norm BinaryConnect has the error of its
best epoch, as all have. The figure shows what came after.)
""",
        holds=(SCALE_MATTERS, GRADIENTS_EXPLODE),
    ),
    Section(
        """\
### Why SVHN's errors are several times the paper's

The paper trains on 598,388 digits, most of them of `extra`, which was not at
hand; nor were the official `train` and `test`. The digits of the runs whose
notes say "another train_32x32.mat" were cut again from the pictures of whole
house numbers, in the official order, with the same labels but not the same
pixels: the first 24,000 of 73,257, and for the test the first 10,000 of 26,032.
The networks all but learn so few by heart (the training errors stand in the
list of all runs), and their test errors tell how they generalize, not how much
a network with binary weights can hold. There binarization may even help, as
noise does; in the paper's setting it costs. The paper's order of the schemes,
and what more filters do to it, cannot be had from so few digits. (The files are
written anew for each session, with a date in them, so the runs at K = 16 and at
K = 32 count as of different data, and no cost is compared between them.)
""",
        file=SVHN_AT_HAND,
    ),
    Section(
        """\
### Why few epochs of a text are not two hundred

The texts ran for few of the paper's 200 epochs, at the first learning rate or
one close to it. One may suspect the rate: while it is high, a latent weight
near zero changes its sign time and again, and ŵ jumps by 2α where a weight of
full precision moves a little. The table by schedule holds ten epochs at the
first rate against ten in which it falls as far as in the paper's 200. The first
check asks whether binarization then costs less. It does, but at the price that
all networks learn less where the rate falls, full precision most. So a second
check was added, after the first results: BWN and LAB do not get further. So the
rate is not shown to be the cause.
""",
        holds=tuple(COST_FALLS_WITH_THE_RATE.values()),
        differs=tuple(FURTHER_WITH_THE_RATE.values()),
    ),
    Section(
        """\
### How the cost of binarization goes with the epochs

From the first epoch to the last that ran it grew: full precision learns faster.
(After one epoch no network has learnt much, so none is far behind.) In the
paper little of it is left after 200, so it must turn somewhere. Where and why
is open.
""",
        differs=tuple(COST_FALLS_IN_TIME.values()),
    ),
    Section(
        """\
### Why longer sequences are behind here

An epoch of sequences of 10 bytes has fifteen times as many updates as one of
sequences of 150, which puts the short ones ahead at equal, few epochs. At equal
updates the long ones have seen fifteen times as many bytes. Neither tells which
are better in the end.
""",
        differs=tuple(LONGER_IS_BETTER.values()),
    ),
)

CHOICES = """\
## What the paper leaves open, and what was done

- The learning rate of full precision: that of the networks with binary weights.
- Batch norm: momentum 0.9, epsilon 1e-5 inside the root; pooling comes before
  it. `--follow code` has the authors' own (epsilon 1e-4 added to the standard
  deviation), their initial weights of binary networks (half of Glorot's limit),
  their learning rate for CIFAR-10 (0.02, not 0.03) and their local contrast
  normalization of SVHN (first channel only).
- MNIST: pixels in [0, 1] minus the mean image of the 50,000 training images.
  (In the authors' code it is that of all 60,000, and for the test images their
  own; `--follow code` does not do this.)
- CIFAR-10: global contrast normalization to the norm 55; ZCA with 0.1 added to
  the variances, fitted on all 50,000 training images, those of the validation
  part (the last 5,000) among them, as with the authors.
- SVHN: global contrast normalization to the norm 1; local with a Gaussian
  window of 7x7 and σ = 2. The validation part are the first 400 images of each
  class of `train`, and the first 200 of `extra` where that is there.
- MNIST without batch norm: layers have biases instead, and a tenth of the
  learning rate, chosen in first trials that were not kept.
- XNOR is BWN with inputs of ±1, as the paper describes it. XNOR-Net's own scale
  of the inputs, one a position, is left out.
- A last batch that is not full is left out of training, not out of evaluation;
  the authors leave it out of both.
- In the feedforward networks latent weights are clipped to [−1, 1] after each
  update and full-precision weights are not. For the texts the paper says that
  all weights are clipped, so all kernels are; with `--follow code`, binary ones
  only.
- War and Peace by schedule: ten epochs with the learning rate times 0.65 after
  each; that of the last is 2% of the first, as in the paper's 200th.
- The texts' gradients are clipped to [−5, 5] entry by entry, as the paper says;
  the authors' code clips what flows into the gates at each time step instead,
  which `--follow code` does not do.
- The texts' parts are the first 80, the next 10 and the last 10 percent (Linux
  Kernel: 90, 5, 5), in whole batches. Forget gates start with a bias of 1.
- The state of the LSTM is zero at the start of each sequence, in training and
  in evaluation, as in the authors' code: cross-entropies are not comparable to
  those of networks that carry it on. In Table 4 longer sequences have more to
  go by in evaluation, too, so not all that they gain is learnt; and the parts,
  which are whole batches, move a little with the number of steps.
- BNN, XNOR and LAB2 of the LSTM: the hidden state is binarized where it enters
  the recurrent product. In the authors' code it is h = σ(o)·sign(c), which is
  not binary. That is `--follow code`; there the softmax layer also starts from
  a normal distribution of deviation 0.01.
"""

ALL_RUNS = """\
Errors in percent, cross-entropies in nats, at the best epoch; that of training
is a mean over the epoch, while the weights move. The seconds are those of the
fastest epoch. Other programs may have run at the same time: they do not compare
the schemes' speed.
"""
