package import SanguineModel

// Problems of requests, records and storage.
extension Problem {
    /// The error for an account id that an administrator sent.
    static var unknownAccount: Problem {
        Problem(.notFound, "Check the account's id: no account has it.")
    }

    /// The problem that clients receive for a storage error.
    init(_ error: StorageError) {
        switch error {
        case .overloaded(let seconds):
            self.init(
                .overloaded,
                """
                The storage is busy. Send the request again after 'Retry-After', with the same key.
                """,
                retryAfter: seconds
            )
        case .closed:
            self.init(
                .overloaded,
                "The server is shutting down. Send the request again with the same key.",
                retryAfter: 1
            )
        case .full, .readOnly:
            self.init(
                .overloaded,
                """
                The server's disk is full or read-only, and nothing was changed. Send the request \
                again later with the same key.
                """,
                retryAfter: 60
            )
        case .damaged:
            self.init(
                .overloaded,
                """
                The server's data is damaged and cannot be changed until the operator repairs it. \
                Nothing was changed. Send the request again later with the same key.
                """,
                retryAfter: 60
            )
        case .failed, .unknownOutcome:
            // The reason may name files, so it goes only to the log.
            self.init(
                .internalFault,
                "Send the request again, with the same key: it takes effect once."
            )
        }
    }

    static var cursorInvalid: Problem {
        Problem(
            .malformedRequest,
            "Use the 'nextCursor' of this list's last page, or leave 'cursor' out to start over."
        )
    }

    static var otherRequest: Problem {
        Problem(
            .idempotencyMismatch,
            "Use a new Idempotency-Key: this one was used for a request with different content."
        )
    }

    static var stillRuns: Problem {
        Problem(
            .operationInProgress,
            "The request is in progress. Send it again with the same key to get its answer.",
            retryAfter: 1
        )
    }

    /// The refusal of a request that needs an index without all records.
    static func incomplete(_ index: IndexName) -> Problem {
        Problem(
            .overloaded,
            """
            The index '\(index.field)' of '\(index.collection)' is being built and is incomplete. \
            Send the request again after 'Retry-After'.
            """,
            retryAfter: 2
        )
    }

    static var unreadableRecord: Problem {
        Problem(.internalFault, "A stored record cannot be read. Report this to the operator.")
    }

    static var tooManyOperations: Problem {
        Problem(
            .invalidContent,
            "Push at most \(WireLimits.pushedOperations) operations at a time."
        )
    }

    /// The problem of a path without an endpoint.
    package static var noEndpoint: Problem {
        Problem(.notFound, "Check the method and the path against /openapi.json.")
    }
}
