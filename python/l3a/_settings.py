"""The parameters of the estimators, from the library's table of settings. Made by tools/make_python.py; do not edit."""
from typing import Optional, Union

# Settings of a model; a parameter has underscores instead of hyphens.
SETTINGS = [
    "dim",
    "seed",
    "gamma",
    "weights",
    "scaling",
    "pseudo",
    "eta",
    "tau",
    "total-classes",
    "theta",
    "precision",
    "solver",
    "store",
    "block",
    "alpha",
    "lift",
    "skip-features",
    "thresholds",
    "keep-phases",
    "gamma-from",
    "views",
    "score-views",
    "pseudo-from",
    "beta",
    "privacy-limit",
]


class L3ASettings:
    PARAMETERS = """method : str, default "l3a"
        How to learn: l3a, l3a+, l3a-no-pl, l3a-no-wac, acil or air.
    dim : int 1 to 1048576, default 8192
        Width of the random layer.
    seed : int from 0, default 2025
        Seed of the random layer.
    gamma : float above 0 or "auto", default 1000
        Ridge, larger is smoother; auto: chosen from the images of the first phase.
    weights : {"sqrt", "inv", "log", "none"}, default "sqrt"
        Class weight for a class with f images: f^-1/2, 1/f, 1/(log f + 1), or 1.
    scaling : {"normalised", "literal"}, default "normalised"
        Scale class weights to mean 1, or use the paper's formula as printed.
    pseudo : {"fixed", "dynamic", "off"}, default "fixed"
        Pseudo-labels of old classes on new images: above eta, above a threshold found from tau, or none.
    eta : float between 0 and 1, default 0.7
        Sigma(score) above which an old class becomes a pseudo-label.
    tau : float above 0 to 1000000, default 2.9
        Dynamic threshold: average number of labels per image, over all classes.
    total_classes : int 0 to 1048576, default 0
        Dynamic threshold: number of all classes; 0: the data set's in run and sweep, else those seen so far.
    theta : float between 0 and 1, default 0.525
        Sigma(score) above which a class counts as predicted.
    precision : {"mixed", "double"}, default "mixed"
        Float32 products in float64 sums, or float64 throughout.
    solver : {"auto", "sums", "recursive", "scalapack"}, default "auto"
        Sums and Cholesky, recursion on the inverse, or whichever is faster for the phase; scalapack: sums that the
        processes of mpirun hold together, for a large dim.
    store : {"float64", "float32"}, default "float64"
        Type of the matrix in the model file.
    block : int 1 to 1048576, default 4096
        Rows processed at a time.
    alpha : float 0 to 1, default 1
        Weight of images from other phases; below 1, phases are kept apart.
    lift : float 0 to 1, default 0
        Share of the sum of all scores added to each score, with t phases kept apart times (t-1)/(t+8).
    skip_features : {"off", "on", "auto"}, default "off"
        Use the features beside the random layer; auto: if they add at most an eighth, or the layer is narrow.
    thresholds : {"fixed", "global", "per-class", "taught"}, default "fixed"
        Predict a class above theta, above one fitted score, or above a fitted score per class; taught: for few
        images, and pictures that show none.
    keep_phases : int 0 to 1048576, default 0
        Number of phases kept apart, older ones are folded; 0: all if alpha is below 1, else none.
    gamma_from : {"images", "sums"}, default "images"
        Gamma auto is chosen from the images of the first phase, or from the sums whenever they change.
    views : int 1 to 1000, default 1
        1: the whole picture alone; 5, 9 or 14: and so many crops of it; unless given, run, sweep and learn use what
        the features have.
    score_views : int 0 to 1000, default 0
        Views of images that are scored; 0: those that are learned.
    pseudo_from : {"whole", "mean", "combined"}, default "mean"
        Score that gives pseudo-labels to images with views: the whole picture's, the mean of it and of the mean
        crop's, or the one that images are scored with.
    beta : float above 0 to 1000000 or "auto", default auto
        Weight of all unlabelled images together, where that of all judged ones is 1; auto: by the number of images
        and classes.
    privacy_limit : int from 0, default 64
        Warn about phases with fewer images; 0: never.
    threads : int, default all processors
        Processors to use.
    device : str, default "cpu"
        Where to learn and score: "cpu", "cuda", "cuda:N", or "auto"."""

    def __init__(
        self,
        method: str = "l3a",
        *,
        dim: Optional[int] = None,
        seed: Optional[int] = None,
        gamma: Optional[Union[float, str]] = None,
        weights: Optional[str] = None,
        scaling: Optional[str] = None,
        pseudo: Optional[str] = None,
        eta: Optional[float] = None,
        tau: Optional[float] = None,
        total_classes: Optional[int] = None,
        theta: Optional[float] = None,
        precision: Optional[str] = None,
        solver: Optional[str] = None,
        store: Optional[str] = None,
        block: Optional[int] = None,
        alpha: Optional[float] = None,
        lift: Optional[float] = None,
        skip_features: Optional[str] = None,
        thresholds: Optional[str] = None,
        keep_phases: Optional[int] = None,
        gamma_from: Optional[str] = None,
        views: Optional[int] = None,
        score_views: Optional[int] = None,
        pseudo_from: Optional[str] = None,
        beta: Optional[Union[float, str]] = None,
        privacy_limit: Optional[int] = None,
        threads: Optional[int] = None,
        device: Optional[str] = None,
    ) -> None:
        self.method = method
        self.dim = dim
        self.seed = seed
        self.gamma = gamma
        self.weights = weights
        self.scaling = scaling
        self.pseudo = pseudo
        self.eta = eta
        self.tau = tau
        self.total_classes = total_classes
        self.theta = theta
        self.precision = precision
        self.solver = solver
        self.store = store
        self.block = block
        self.alpha = alpha
        self.lift = lift
        self.skip_features = skip_features
        self.thresholds = thresholds
        self.keep_phases = keep_phases
        self.gamma_from = gamma_from
        self.views = views
        self.score_views = score_views
        self.pseudo_from = pseudo_from
        self.beta = beta
        self.privacy_limit = privacy_limit
        self.threads = threads
        self.device = device


class JointSettings:
    PARAMETERS = """dim : int 1 to 1048576, default 8192
        Width of the random layer.
    seed : int from 0, default 2025
        Seed of the random layer.
    gamma : float above 0 or "auto", default 1000
        Ridge, larger is smoother; auto: chosen from the images of the first phase.
    weights : {"sqrt", "inv", "log", "none"}, default "sqrt"
        Class weight for a class with f images: f^-1/2, 1/f, 1/(log f + 1), or 1.
    scaling : {"normalised", "literal"}, default "normalised"
        Scale class weights to mean 1, or use the paper's formula as printed.
    theta : float between 0 and 1, default 0.525
        Sigma(score) above which a class counts as predicted.
    precision : {"mixed", "double"}, default "mixed"
        Float32 products in float64 sums, or float64 throughout.
    solver : {"auto", "sums", "recursive", "scalapack"}, default "auto"
        Sums and Cholesky, recursion on the inverse, or whichever is faster for the phase; scalapack: sums that the
        processes of mpirun hold together, for a large dim.
    store : {"float64", "float32"}, default "float64"
        Type of the matrix in the model file.
    block : int 1 to 1048576, default 4096
        Rows processed at a time.
    skip_features : {"off", "on", "auto"}, default "off"
        Use the features beside the random layer; auto: if they add at most an eighth, or the layer is narrow.
    thresholds : {"fixed", "global", "per-class", "taught"}, default "fixed"
        Predict a class above theta, above one fitted score, or above a fitted score per class; taught: for few
        images, and pictures that show none.
    views : int 1 to 1000, default 1
        1: the whole picture alone; 5, 9 or 14: and so many crops of it; unless given, run, sweep and learn use what
        the features have.
    score_views : int 0 to 1000, default 0
        Views of images that are scored; 0: those that are learned.
    beta : float above 0 to 1000000 or "auto", default auto
        Weight of all unlabelled images together, where that of all judged ones is 1; auto: by the number of images
        and classes.
    privacy_limit : int from 0, default 64
        Warn about phases with fewer images; 0: never.
    threads : int, default all processors
        Processors to use.
    device : str, default "cpu"
        Where to learn and score: "cpu", "cuda", "cuda:N", or "auto"."""

    def __init__(
        self,
        *,
        dim: Optional[int] = None,
        seed: Optional[int] = None,
        gamma: Optional[Union[float, str]] = None,
        weights: Optional[str] = None,
        scaling: Optional[str] = None,
        theta: Optional[float] = None,
        precision: Optional[str] = None,
        solver: Optional[str] = None,
        store: Optional[str] = None,
        block: Optional[int] = None,
        skip_features: Optional[str] = None,
        thresholds: Optional[str] = None,
        views: Optional[int] = None,
        score_views: Optional[int] = None,
        beta: Optional[Union[float, str]] = None,
        privacy_limit: Optional[int] = None,
        threads: Optional[int] = None,
        device: Optional[str] = None,
    ) -> None:
        self.dim = dim
        self.seed = seed
        self.gamma = gamma
        self.weights = weights
        self.scaling = scaling
        self.theta = theta
        self.precision = precision
        self.solver = solver
        self.store = store
        self.block = block
        self.skip_features = skip_features
        self.thresholds = thresholds
        self.views = views
        self.score_views = score_views
        self.beta = beta
        self.privacy_limit = privacy_limit
        self.threads = threads
        self.device = device
