"""Text corpora: files and fields read as documents, filtered, cut into windows."""

from .corpus import Corpus, documents_digest, kjv_chapters, load_corpus, split_rule

__all__ = ["Corpus", "documents_digest", "kjv_chapters", "load_corpus", "split_rule"]
