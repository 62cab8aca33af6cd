import SanguineModel

/// The messages that are sent by e-mail.
struct MailText: Sendable {
    let appName: String

    /// The message with a code.
    ///
    /// It contains no link, because a link is opened in the session of a browser, and not in the
    /// one that requested the message.
    func code(
        _ code: String,
        _ purpose: Verification.Purpose,
        validFor life: Duration
    ) -> (subject: String, text: String) {
        let minutes = max(1, life.secondsRoundedUp / 60)
        let action =
            switch purpose {
            case .registration: "to register with this e-mail address"
            case .emailChange: "to use this e-mail address for your account"
            case .passwordReset: "to set a new password"
            }
        let text = """
            Your code for \(appName) is:

                \(code.prefix(4)) \(code.dropFirst(4))

            Enter it in \(appName) \(action). It is valid for \(minutes) \
            \(minutes == 1 ? "minute" : "minutes").

            If you did not request it, ignore this message: nothing changes without the code. Do \
            not give the code to anyone.

            """
        return ("Your code for \(appName)", text)
    }

    /// The notice that goes to the previous address.
    func emailChanged(to new: EmailAddress) -> (subject: String, text: String) {
        let text = """
            The e-mail address of your \(appName) account was changed to \(new.masked). This \
            address can no longer be used to sign in.

            If you did not do this, contact the support of \(appName).

            """
        return ("Your e-mail address for \(appName) was changed", text)
    }

    /// The notice that a password was set.
    func passwordChanged() -> (subject: String, text: String) {
        let text = """
            The password of your \(appName) account was changed, and all other devices were signed \
            out.

            If you did not do this, set a new password with "Forgot password" in \(appName), and \
            check who has access to your e-mails.

            """
        return ("Your password for \(appName) was changed", text)
    }
}
