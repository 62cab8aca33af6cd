import SanguineModel

/// How an answer is wanted.
package enum CallReader: Sendable {
    /// In one piece.
    case plain
    /// In parts as they come, from the one on that follows an index.
    case parts(after: Int64?)

    var wantsParts: Bool { if case .parts = self { true } else { false } }

    var after: Int64? { if case .parts(let index) = self { index } else { nil } }
}

/// What a call is answered with.
package enum CallReply: Sendable {
    /// Where an answer comes from.
    package enum Origin: Hashable, Sendable {
        /// From what is kept: made so long ago, and kept for so long yet (`nil` for ever).
        case cache(age: Duration, rest: Duration?)
        /// From a run of its own, whose result is kept or is not.
        case run(isKept: Bool)
        /// From a run of its own, whose result is not kept although its function's are, or not yet.
        case missed
        /// From the run of another call.
        case shared
        /// It was given before.
        case replayed
    }

    /// All of it.
    case answer(Answer, Origin)
    /// Its parts as they come.
    case events(CallEvents, Origin)
}
