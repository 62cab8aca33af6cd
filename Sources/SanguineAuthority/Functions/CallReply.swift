import SanguineModel

/// The form in which a client reads an answer.
package enum AnswerForm: Sendable {
    /// In one piece.
    case plain
    /// In parts as they arrive, starting after an index.
    case parts(after: Int64?)

    var wantsParts: Bool { if case .parts = self { true } else { false } }

    var after: Int64? { if case .parts(let index) = self { index } else { nil } }
}

/// The reply to a call.
package enum CallReply: Sendable {
    /// The origin of an answer.
    package enum Origin: Hashable, Sendable {
        /// From the cache, with the age of the answer and its remaining lifetime (`nil` for
        /// unlimited).
        case cache(age: Duration, rest: Duration?)
        /// From a run of this call, whose result is cached or not.
        case run(isKept: Bool)
        /// From a run of this call, whose result is not cached yet, although the function has a
        /// cache.
        case missed
        /// From the run of another call.
        case shared
        /// From the stored answer of an earlier request.
        case replayed
    }

    /// The complete answer.
    case answer(Answer, Origin)
    /// The parts as they arrive.
    case events(CallEventStream, Origin)
}
