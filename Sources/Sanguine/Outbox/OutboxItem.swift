package import SanguineModel

// MARK: - What an outbox is about

extension OutboxState {
    /// What an operation changes, and who is asked to do it.
    ///
    /// Lanes of two kinds have nothing to do with each other, whatever their names.
    package enum Kind: String, CaseIterable, Sendable {
        /// A ``RecordMutation`` on records, for the authority.
        case mutator
        /// A ``RequestMutation``, for any backend.
        case mutation
    }

    /// How operations of a kind are sent.
    package struct Limits: Sendable {
        /// How many go in one flight.
        ///
        /// If more than one, all lanes fail and wait together.
        package var operations: Int
        /// How many flights there may be at a time.
        package var flights: Int

        package init(operations: Int, flights: Int) {
            (self.operations, self.flights) = (operations, flights)
        }
    }

    /// What fails and waits for its next try together: a lane, or all lanes of a kind.
    ///
    /// A lane that waits for a deployment of the server is a group of its own.
    package struct RetryGroup: Hashable, Sendable {
        package let kind: Kind
        package let lane: String

        package init(kind: Kind, lane: String) { (self.kind, self.lane) = (kind, lane) }
    }

    /// Where an operation is.
    package enum Phase: Hashable, Sendable {
        /// Waits to be sent, for the first time or again.
        case queued
        /// On its way in that flight.
        case sending(flight: UInt64)
        /// Done: the base contains it from that number on.
        case acknowledged(head: Int64)
        /// Not done, and never will be.
        case refused(Problem)
    }

    /// An operation, without what it does.
    package struct Item: Sendable {
        package let id: Identifier
        package let sequence: Int64
        package let kind: Kind
        package internal(set) var lane: String
        /// The last operations before it that touched what it touched when it was taken in, by
        /// sequence number.
        package var dependencies: Set<Int64> = []
        package var phase = Phase.queued
        /// The epoch of the number at which it is acknowledged; `nil` if that is not known.
        package var epoch: Epoch?
        /// Whether a sending was not answered: it may be done, or not.
        package var mayBeDone = false
        /// Whether it is still to be shown: nothing is sent before that.
        package var isArriving = false

        package init(
            id: Identifier,
            sequence: Int64,
            lane: String,
            kind: Kind = .mutator,
            phase: Phase = .queued
        ) {
            self.id = id
            self.sequence = sequence
            self.lane = lane
            self.kind = kind
            self.phase = phase
        }
    }

    /// Operations that are sent together, in this order.
    package struct Flight: Hashable, Sendable {
        package let number: UInt64
        package let kind: Kind
        package let sequences: [Int64]
    }

    /// What must be durable before the shell goes on.
    package enum Step: Hashable, Sendable {
        /// These may be done from now on: written before they leave.
        case sending([Int64])
        /// That one is done, and contained at the number.
        case acknowledged(Int64, head: Int64, epoch: Epoch?)
        /// These may be done, or not: the history that had acknowledged them is lost.
        case reopened([Int64])
        /// The server does not know that one's mutator yet, and first said so at the moment, in
        /// milliseconds since 1970. A copy of the request that comes late may still do it.
        case deferred(Int64, since: Int64, Problem)
        /// That one is refused.
        case refused(Int64, Problem)
        /// These are over.
        case removed([Int64])
    }

    /// Why nothing is sent at present.
    package enum Pause: Hashable, Sendable {
        /// Somebody must sign in first, before anything of that kind is sent.
        case signIn(Kind)
        /// The network is away.
        case offline
    }

    /// How a flight failed.
    package enum Failure: Hashable, Sendable {
        /// It is tried again after a while, which grows.
        case retry
        /// The server named the time.
        case retryAfter(Duration)
        /// Nothing is sent before somebody signs in.
        case needsSignIn
    }
}

extension OutboxState.Item {
    /// Whether it is acknowledged at a number of another epoch: the server of this one may have
    /// lost it.
    func isAcknowledged(outside other: Epoch) -> Bool {
        head != nil && epoch.map { $0 != other } ?? false
    }

    /// Whether it may be done, or not: nobody knows.
    package var isUnresolved: Bool {
        switch phase {
        case .queued: mayBeDone
        case .sending: true
        case .acknowledged, .refused: false
        }
    }

    /// Whether it is being sent.
    var isOnItsWay: Bool { if case .sending = phase { true } else { false } }

    /// Whether it waits and has surely reached nobody.
    package var isUnsent: Bool { phase == .queued && !mayBeDone }

    /// What the base must have reached for the record mutation to be settled, if it is
    /// acknowledged.
    var head: Int64? {
        guard kind == .mutator, case .acknowledged(let head) = phase else { return nil }
        return head
    }

    /// Whether it is in the tray.
    package var isRefused: Bool { if case .refused = phase { true } else { false } }

    /// Whether its answer is still to come.
    package var isUnanswered: Bool {
        switch phase {
        case .queued, .sending: true
        case .acknowledged, .refused: false
        }
    }
}

extension Outbox.Summary {
    /// Counts operations of a phase, or no longer.
    mutating func count(_ phase: OutboxState.Phase, _ number: Int) {
        switch phase {
        case .queued, .sending: unsent += number
        case .acknowledged: settling += number
        case .refused: refused += number
        }
    }
}
