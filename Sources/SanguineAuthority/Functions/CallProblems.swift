package import SanguineModel

// Problems of calls, quotas, the ledger and purchases.
extension Problem {
    static var callExpired: Problem {
        Problem(
            .upstreamTimeout,
            """
            The hold expired before the call ended. Send the call again with the same key to get \
            its result.
            """
        )
    }

    static var callCancelled: Problem {
        Problem(
            .callCancelled,
            "Call again with a new key; the parts so far are kept under this one."
        )
    }

    /// The problem of a call whose upstream took too long.
    package static var upstreamTooSlow: Problem {
        Problem(
            .upstreamTimeout,
            "Nothing was charged. Send the call again with the same key."
        )
    }

    /// The problem of a call whose upstream failed, without the upstream's text.
    package static var upstreamFailed: Problem {
        Problem(
            .upstreamFailed,
            "Nothing was charged. Send the call again later with the same key."
        )
    }

    /// The problem of a call whose upstream returned more than the limit.
    package static func answerTooLong(_ limit: Int) -> Problem {
        Problem(
            .upstreamFailed,
            tooLong + """
                 \(limit) bytes. The parts so far were charged. Call again with a new key, and \
                request a shorter answer, without 'top_logprobs'.
                """
        )
    }

    private static let tooLong = "The answer is longer than"

    /// Whether the detail says that the answer is too long and was charged.
    var isOfLength: Bool { detail.hasPrefix(Self.tooLong) }

    /// Whether the storage is failing or overloaded, so that a retry may succeed.
    var isOfStorage: Bool { code == .overloaded || code == .internalFault }

    static var noTurn: Problem {
        Problem(
            .overloaded,
            "Too many calls are running or waiting. Send this one again with the same key.",
            retryAfter: 5
        )
    }

    static var interrupted: Problem {
        Problem(
            .interrupted,
            """
            The answer is incomplete; the parts so far are kept under this key. Call again with \
            a new key.
            """
        )
    }

    static var endUnknown: Problem {
        Problem(
            .operationInProgress,
            "Wait, then send the same request with the same key to get its answer.",
            retryAfter: 1
        )
    }

    /// Not 503, which would say that nothing was changed, although the call was accepted.
    static var stopping: Problem {
        Problem(
            .operationInProgress,
            "The server is shutting down. Send the call again with the same key to get its result.",
            retryAfter: 1
        )
    }

    /// The error for an account that does not exist.
    static var noAccount: Problem {
        Problem(.notFound, "Sign in again: this account no longer exists.")
    }

    static var noHold: Problem {
        Problem(.notFound, "Use the 'id' of a hold that this account placed.")
    }

    static func holdSettled(_ hold: HoldRow) -> Problem {
        let end =
            switch hold.state {
            case .captured(let amount): "captured with \(amount)"
            case .expired: "released because it expired"
            default: "released"
            }
        return Problem(.holdSettled, "Nothing is left to do: the hold was already \(end).")
    }

    static var purchaseInvalid: Problem {
        Problem(
            .purchaseInvalid,
            "Send the signed data as the App Store returned it; its signature is not valid."
        )
    }

    static var purchaseTaken: Problem {
        Problem(
            .purchaseTaken,
            "Sign in to the account that made the purchase: it was credited there."
        )
    }

    static var noQuota: Problem {
        Problem(.notFound, "Use a name that GET /v1/quotas lists.")
    }
}
