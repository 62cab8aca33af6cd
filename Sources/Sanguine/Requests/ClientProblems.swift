import SanguineModel

// Problems that the client itself finds.
extension Problem {
    /// The problem of a backend that responds with empty pages, each followed by a cursor.
    ///
    /// The user must be informed, because no row appears that would load the next page.
    static var emptyPages: Problem {
        var problem = Problem(
            .overloaded,
            """
            The backend returned \(PageLimits.emptyPages) empty pages in a row. Load the next page \
            to continue after them.
            """
        )
        problem.title = "The list found no further rows."
        return problem
    }

    /// The operation was refused, but the stored problem is damaged.
    static let unreadableRefusal = Problem(
        ProblemCode(rawValue: "store"),
        """
        The reason is lost, because the outbox on this device is damaged. Retry or discard the \
        operation, and check the disk.
        """
    )

    /// The session of a registered user has ended.
    static let signInNeeded = Problem(
        .sessionEnded,
        "Let the user sign in again: this device's session was ended."
    )

    /// The guest of this device was registered, or merged into an account, on another device.
    static let guestRegistered = Problem(
        .guestRegistered,
        """
        Let the user sign in to the account that they use on another device. Everything on this \
        device is kept until then.
        """
    )

    /// The problem of a call that is refused because too many others are pending.
    static var tooManyCalls: Problem {
        var problem = Problem(
            .overloaded,
            """
            \(BalanceLimits.pendingCalls) calls are running, or \(BalanceLimits.queuedCalls) are \
            waiting for a network. Let some of them end before you make more.
            """
        )
        problem.title = "There are too many calls."
        return problem
    }

    /// The problem of a question in a thread that is refused because others take all the room.
    static var tooManyQuestions: Problem {
        var problem = Problem(
            .overloaded,
            """
            The questions that wait for a network take \(MessageLimits.pendingBytes >> 20) MiB. \
            Connect to the network, or withdraw some of them, then ask again.
            """
        )
        problem.title = "There are too many questions."
        return problem
    }

    /// The text that the app has passed is not a signed transaction.
    static var notSigned: Problem {
        Problem(
            .purchaseInvalid,
            "Pass the 'jwsRepresentation' of StoreKit's verification result, unchanged."
        )
    }

    /// Something other than the backend has answered every send of the operation.
    static func intercepted(_ error: SanguineError) -> Problem {
        var problem = Problem(ProblemCode(rawValue: error.code), "\(error)")
        problem.title = "Something other than the backend has answered."
        return problem
    }

    /// This version of the app has no type for an operation on disk.
    static func unknownMutation(_ name: String) -> Problem {
        Problem(
            .mutatorUnknown,
            """
            This version of the app does not know the mutation '\(name)'. Register its former type \
            with configuration.register(…), or discard the operation.
            """
        )
    }

    static let notInTray = Problem(
        .notFound,
        "The outbox has no such operation to retry or discard. It may have settled."
    )
    static let outcomeUnknown = Problem(
        .operationInProgress,
        "Wait for the operation's outcome: it was sent and may have been applied."
    )
}
