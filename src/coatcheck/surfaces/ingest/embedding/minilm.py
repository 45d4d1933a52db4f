"""all-MiniLM-L6-v2 in NumPy: a BERT with 6 layers, 23 million parameters and 384 dimensions.

The matrix products dominate, and NumPy multiplies as fast as any runtime, so only the weights have
to be installed. Texts are embedded one by one: no padding has to be computed and masked, and one
passage fills a core by itself.

The model was trained on inputs truncated to 256 tokens. A longer text is read in windows of that
size, and its vector is their mean.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coatcheck.surfaces.ingest.embedding.base import Vector
from coatcheck.surfaces.ingest.embedding.weights import VOCABULARY, WEIGHTS, read_published
from coatcheck.surfaces.ingest.embedding.wordpiece import WordPieceTokenizer

DIMENSIONS = 384
LAYERS = 6
HEADS = 12
WINDOW = 256
EPSILON = np.float32(1e-12)
Array = NDArray[np.float32]


class MiniLM:
    """The loaded model."""

    def __init__(self, weights: Mapping[str, Array], pieces: WordPieceTokenizer) -> None:
        self._pieces = pieces
        self._words = weights["embeddings.word_embeddings.weight"]
        self._positions = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _Norm(weights, "embeddings.LayerNorm")
        self._layers = [_Layer(weights, f"encoder.layer.{number}") for number in range(LAYERS)]

    @classmethod
    def load(cls, folder: Path) -> MiniLM:
        """Load the model; raise ConfigurationError unless its files are the published ones."""
        pieces = read_published(folder / VOCABULARY).decode().removesuffix("\n").split("\n")
        return cls(_read_tensors(read_published(folder / WEIGHTS)), WordPieceTokenizer(pieces))

    def embed(self, text: str) -> Vector:
        """Return the vector of a text."""
        numbers = self._pieces.token_ids(text)
        size = WINDOW - 2
        windows = [numbers[first : first + size] for first in range(0, len(numbers), size)] or [[]]
        total = sum(
            (len(window) + 2) * self._mean([self._pieces.start, *window, self._pieces.end])
            for window in windows
        )
        vector: Vector = np.asarray(total, dtype=np.float32)
        return vector / np.linalg.norm(vector)

    def _mean(self, numbers: list[int]) -> Array:
        state = self._norm(self._words[numbers] + self._positions[: len(numbers)])
        for layer in self._layers:
            state = layer(state)
        mean: Array = state.mean(axis=0)
        return mean / np.linalg.norm(mean)


class _Norm:
    def __init__(self, weights: Mapping[str, Array], name: str) -> None:
        self._weight = weights[f"{name}.weight"]
        self._bias = weights[f"{name}.bias"]

    def __call__(self, state: Array) -> Array:
        state = state - state.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", state, state)[:, None] / np.float32(state.shape[-1])
        state /= np.sqrt(variance + EPSILON)
        state *= self._weight
        state += self._bias
        return state


class _Dense:
    def __init__(self, weights: Mapping[str, Array], *names: str) -> None:
        # Layers with the same input are one multiplication.
        matrices = [weights[f"{name}.weight"] for name in names]
        self._matrix = np.ascontiguousarray(np.concatenate(matrices).T)
        self._bias = np.concatenate([weights[f"{name}.bias"] for name in names])

    def __call__(self, state: Array) -> Array:
        result: Array = state @ self._matrix
        result += self._bias
        return result


class _Layer:
    def __init__(self, weights: Mapping[str, Array], name: str) -> None:
        attention = f"{name}.attention"
        self._attend = _Dense(
            weights, *(f"{attention}.self.{part}" for part in ("query", "key", "value"))
        )
        self._attended = _Dense(weights, f"{attention}.output.dense")
        self._attended_norm = _Norm(weights, f"{attention}.output.LayerNorm")
        self._widen = _Dense(weights, f"{name}.intermediate.dense")
        self._narrow = _Dense(weights, f"{name}.output.dense")
        self._norm = _Norm(weights, f"{name}.output.LayerNorm")

    def __call__(self, state: Array) -> Array:
        length = len(state)
        split = self._attend(state).reshape(length, 3, HEADS, -1).transpose(1, 2, 0, 3)
        query, key, value = split
        scores: Array = query @ key.transpose(0, 2, 1)
        scores *= np.float32(1 / math.sqrt(DIMENSIONS // HEADS))
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed: Array = (scores @ value).transpose(1, 0, 2).reshape(length, DIMENSIONS)
        state = self._attended_norm(state + self._attended(mixed))
        return self._norm(state + self._narrow(_gelu(self._widen(state))))


def _gelu(x: Array) -> Array:
    """Return x times the standard normal distribution function of x, within 0.00002 of x.

    NumPy has no error function; this is Abramowitz and Stegun's approximation 7.1.25.
    """
    scaled = np.abs(x)
    scaled *= np.float32(math.sqrt(0.5))
    t = scaled * np.float32(0.47047)
    t += 1
    np.reciprocal(t, out=t)
    tail = t * np.float32(0.7478556)
    tail -= np.float32(0.0958798)
    tail *= t
    tail += np.float32(0.3480242)
    tail *= t
    np.square(scaled, out=scaled)
    np.negative(scaled, out=scaled)
    np.exp(scaled, out=scaled)
    tail *= scaled
    # The tail beyond |x|, halved; below zero it is the whole value.
    tail *= np.float32(0.5)
    result: Array = np.where(x < 0, tail, 1 - tail)
    result *= x
    return result


def _read_tensors(content: bytes) -> dict[str, Array]:
    """Parse the safetensors format: a length, a JSON directory, and the numbers."""
    (length,) = struct.unpack_from("<Q", content)
    tensors = json.loads(content[8 : 8 + length])
    numbers = memoryview(content)[8 + length :]
    # Copies, so that the file's bytes can be freed.
    return {
        name: np.frombuffer(numbers[slice(*each["data_offsets"])], dtype="<f4")
        .astype(np.float32)
        .reshape(each["shape"])
        for name, each in tensors.items()
        if each.get("dtype") == "F32"
    }
