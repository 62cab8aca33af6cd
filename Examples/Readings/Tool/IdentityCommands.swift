import ArgumentParser
import ExampleTerminal
import ReadingsApp
import Sanguine

struct Credentials: ParsableArguments {
    @Option(help: "The e-mail address.") var email: String
    @Option(help: "The password, of at least 8 characters.") var password: String
}

extension ReadingsTool {
    struct Register: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "upgrade",
            abstract: "Register the guest by e-mail. 'verify' completes this with the code."
        )
        @OptionGroup var credentials: Credentials
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                try await app.identity.register(
                    email: credentials.email,
                    password: credentials.password
                )
                guard let sent = app.identity.verification else { return }
                try say("A code was sent to \(sent.sentTo). It is valid until \(sent.expiresAt).")
            }
        }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Complete the registration with the code of the e-mail."
        )
        @Argument(help: "The eight digits.") var code: String
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                try await app.identity.verify(code.filter { !$0.isWhitespace })
                let account = app.client.account.current
                try say(
                    "registered as \(account.email ?? "?"), still \(account.id?.description ?? "?")"
                )
            }
        }
    }

    struct SignIn: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign-in",
            abstract: "Sign in to an existing account, to which the guest's data moves."
        )
        @OptionGroup var credentials: Credentials
        @Flag(help: "Do not ask.") var yes = false
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                try await app.identity.prepareSignIn(
                    email: credentials.email,
                    password: credentials.password
                )
                guard let preview = app.identity.offer?.preview else { return }
                try say("\(preview.records) readings and \(preview.tokens.moved) tokens move.")
                for quota in preview.quotas where quota.name == "readings" {
                    try say("\(quota.used) of \(quota.limit) readings of today are used then.")
                }
                if !yes {
                    try say("Continue? Type 'yes':")
                    guard readLine() == "yes" else { throw ExitCode.failure }
                }
                try await app.identity.confirmSignIn()
                try await app.readings.refresh()
                try say("signed in as \(app.client.account.current.email ?? "?")")
                try say("\(app.readings.history.count) readings")
            }
        }
    }

    struct OtherDevice: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "second-device",
            abstract: "Show a code for another device, or use the code that it shows."
        )
        @Argument(help: "The code of the other device.") var code: String?
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                guard let code else {
                    let shown = try await app.identity.codeForOtherDevice()
                    return try say("\(shown.code), valid until \(shown.expiresAt)")
                }
                try await app.identity.join(code: code)
                try await app.readings.refresh()
                try say("\(app.readings.history.count) readings")
            }
        }
    }
}
