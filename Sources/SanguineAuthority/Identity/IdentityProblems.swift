import SanguineModel

// Problems of sign-in, sessions, merges and e-mail addresses.
extension Problem {
    /// The refusal of a login that belongs to another account.
    static func taken(_ login: Login.Name) -> Problem {
        switch login {
        case .email:
            Problem(
                .emailTaken,
                """
                This e-mail address belongs to another account. Sign in to it with POST \
                /v1/sessions, which can merge this account into it.
                """
            )
        case .identity:
            Problem(
                .identityTaken,
                """
                This identity belongs to another account. Sign in to it with POST /v1/sessions, \
                which can merge this account into it.
                """
            )
        }
    }

    /// The refusal of a wrong address or password, which does not tell them apart.
    static var credentialsInvalid: Problem {
        Problem(
            .credentialsInvalid,
            """
            Check the e-mail address and the password, or set a new one with POST \
            /v1/accounts/password/reset.
            """
        )
    }

    /// The refusal of a second e-mail address.
    static var hasAddress: Problem {
        Problem(
            .invalidContent,
            "The account has an e-mail address. Change it with POST /v1/account/email."
        )
    }

    /// The refusal of a wrong, void or expired code, which does not tell them apart.
    static var verificationFailed: Problem {
        Problem(
            .verificationFailed,
            """
            Check the code, or request a new one: a code is valid once, for a limited time, and \
            void after \(Verification.wrongCodes) wrong ones.
            """
        )
    }

    static var moveCodeInvalid: Problem {
        Problem(
            .moveCodeInvalid,
            "Show a new code on the other device: this one is wrong, was used, or has expired."
        )
    }

    static var noSession: Problem {
        Problem(.notFound, "Use the 'id' of a session that GET /v1/sessions lists.")
    }

    /// The refusal of a merge whose preview is no longer right.
    static var mergeStale: Problem {
        Problem(
            .mergeStale,
            """
            Request a new preview: the guest or the account has changed since this one, or it is \
            older than 10 minutes.
            """
        )
    }

    /// The refusal of a guest that was merged or deleted.
    static var guestGone: Problem {
        Problem(
            .sessionEnded,
            """
            Sign in without the guest's access token: this guest was merged into an account, or \
            deleted.
            """
        )
    }

    /// The refusal of a device whose guest has become, or become a part of, a registered account
    /// that the device does not open.
    static var guestRegistered: Problem {
        Problem(
            .guestRegistered,
            """
            Sign in to the account to which this device's guest belongs, or leave 'guest' out to \
            begin as a new guest.
            """
        )
    }

    /// The refusal of a session of an account that was deleted.
    static var accountDeleted: Problem {
        Problem(
            .accountDeleted,
            "Remove what the device has of this deleted account, or begin as a new guest."
        )
    }

    /// The refusal of a fresh proof with another refresh token than the newest.
    static var proofWrong: Problem {
        Problem(
            .credentialsInvalid,
            "Send the newest refresh token of this session as 'refreshToken'."
        )
    }

    /// The refusal of a refresh token that is unknown or expired.
    static var refreshInvalid: Problem {
        Problem(.refreshInvalid, "Sign in again: this refresh token is unknown or has expired.")
    }

    /// The refusal of an ended session.
    static var sessionOver: Problem {
        Problem(.sessionEnded, "Sign in again: this session has ended.")
    }
}
