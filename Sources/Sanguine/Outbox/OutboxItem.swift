package import SanguineModel

// MARK: - Types

extension OutboxState {
    /// The kind of an operation: what it changes and which backend it is sent to.
    ///
    /// Lanes of different kinds are independent, even if their names are equal.
    package enum Kind: String, CaseIterable, Sendable {
        /// A ``RecordMutation`` on records, sent to the Sanguine server.
        case record = "mutator"
        /// A ``RemoteMutation``, sent to any backend.
        case remote = "mutation"
        /// The upload of a file that is on this device, sent to the Sanguine server.
        ///
        /// Its lane is the local id of the file.
        case upload = "upload"
    }

    /// The limits for sends of one kind.
    package struct Limits: Sendable {
        /// The maximum number of operations in one send.
        ///
        /// If it is more than one, all lanes fail and wait together.
        package var operations: Int
        /// The maximum number of concurrent sends.
        package var sends: Int

        package init(operations: Int, sends: Int) {
            (self.operations, self.sends) = (operations, sends)
        }
    }

    /// The operations that fail and wait for their next try together: a lane, or all lanes of a
    /// kind.
    ///
    /// A lane that waits for a deployment of the server forms its own group.
    package struct RetryGroup: Hashable, Sendable {
        package let kind: Kind
        package let lane: String

        package init(kind: Kind, lane: String) { (self.kind, self.lane) = (kind, lane) }
    }

    /// The state of an operation.
    package enum Phase: Hashable, Sendable {
        /// Queued, for the first time or again.
        case queued
        /// Part of the send with this number.
        case sending(send: UInt64)
        /// Applied: the base contains it from this number on.
        case acknowledged(head: Int64)
        /// Permanently refused.
        case refused(Problem)
    }

    /// The state of an operation, without its arguments.
    package struct Item: Sendable {
        package let id: Identifier
        package let sequence: Int64
        package let kind: Kind
        package internal(set) var lane: String
        /// The sequence numbers of the last earlier operations that changed the same records, as of
        /// the time at which this one was added.
        package var dependencies: Set<Int64> = []
        package var phase = Phase.queued
        /// The epoch of the acknowledgement's number; `nil` if it is not known.
        package var epoch: Epoch?
        /// Whether a send got no response, so that the operation may have been applied.
        package var outcomeUnknown = false
        /// Whether it is not visible yet, and so must not be sent.
        package var isArriving = false

        package init(
            id: Identifier,
            sequence: Int64,
            lane: String,
            kind: Kind = .record,
            phase: Phase = .queued
        ) {
            self.id = id
            self.sequence = sequence
            self.lane = lane
            self.kind = kind
            self.phase = phase
        }
    }

    /// The operations of one send, in their order.
    package struct Send: Hashable, Sendable {
        package let number: UInt64
        package let kind: Kind
        package let sequences: [Int64]
    }

    /// A change that must be durable before the shell continues.
    package enum Step: Hashable, Sendable {
        /// These operations may be applied once they are sent; written before that.
        case sending([Int64])
        /// The operation is applied; the base contains it from the number on.
        case acknowledged(Int64, head: Int64, epoch: Epoch?)
        /// These operations may or may not have been applied: the history that acknowledged them is
        /// lost.
        case reopened([Int64])
        /// The server does not know the operation's mutation yet.
        ///
        /// `since` is the time of its first such response, in milliseconds since 1970. A copy of
        /// the request that arrives late may still apply it.
        case deferred(Int64, since: Int64, Problem)
        /// The operation is refused.
        case refused(Int64, Problem)
        /// These operations are over.
        case removed([Int64])
    }

    /// A reason for which nothing is sent.
    package enum Pause: Hashable, Sendable {
        /// The user must sign in before operations of this kind are sent.
        case signIn(Kind)
        /// There is no network.
        case offline
    }

    /// The failure of a send.
    package enum Failure: Hashable, Sendable {
        /// Retried after a growing delay.
        case retry
        /// Retried after the delay that the server named.
        case retryAfter(Duration)
        /// Retried after the user has signed in.
        case needsSignIn
    }
}

extension OutboxState.Item {
    /// Whether it is acknowledged at a number of another epoch, so that the server may have lost
    /// it.
    func isAcknowledged(outside other: Epoch) -> Bool {
        head != nil && epoch.map { $0 != other } ?? false
    }

    /// Whether it is unknown if the operation has been applied.
    package var isUnresolved: Bool {
        switch phase {
        case .queued: outcomeUnknown
        case .sending: true
        case .acknowledged, .refused: false
        }
    }

    /// Whether it is being sent.
    var isBeingSent: Bool { if case .sending = phase { true } else { false } }

    /// Whether it can be removed: it is refused or was never sent, or is an upload that has not
    /// succeeded, because an attempt has no effect that anyone sees.
    var isRemovable: Bool { isRefused || isUnsent || isOpenUpload }

    /// Whether an upload is queued or being sent; its send can be cancelled.
    var isOpenUpload: Bool { kind == .upload && isUnanswered }

    /// Whether it is queued and has certainly not reached the backend.
    package var isUnsent: Bool { phase == .queued && !outcomeUnknown }

    /// The number that the base must reach for the record mutation to be settled; `nil` if it is
    /// not acknowledged.
    var head: Int64? {
        guard kind == .record, case .acknowledged(let head) = phase else { return nil }
        return head
    }

    /// Whether it is in the tray.
    package var isRefused: Bool { if case .refused = phase { true } else { false } }

    /// Whether it has no answer yet.
    package var isUnanswered: Bool {
        switch phase {
        case .queued, .sending: true
        case .acknowledged, .refused: false
        }
    }
}

extension Outbox.Summary {
    /// Adds a number of operations of a phase; a negative number subtracts them.
    mutating func count(_ phase: OutboxState.Phase, _ number: Int) {
        switch phase {
        case .queued, .sending: unsent += number
        case .acknowledged: settling += number
        case .refused: refused += number
        }
    }
}
