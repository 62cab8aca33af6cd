import AlmanacApp
import AlmanacModel
import AlmanacSky
import ArgumentParser
import ExampleTerminal
import Sanguine

extension AlmanacTool {
    struct Today: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show today's prediction, which is asked for once a day."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                let birth = try await app.birth()
                try say(
                    try await app.client.value(of: .prediction(for: birth, on: app.screen.today))
                )
            }
        }
    }

    struct Ask: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ask a question, and print the answer as it arrives."
        )
        @Argument var question: String
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                _ = try await app.birth()
                guard let answer = try app.screen.ask(question) else { return }
                _ = try await write(answer)
            }
        }
    }

    struct Match: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Compare your birth with another one, and print the explanation."
        )
        @OptionGroup var other: BirthOptions
        @Flag(help: "The other person is the groom.") var isGroom = false
        @OptionGroup var options: AppOptions

        func run() async throws {
            let other = try other.birth()
            let isGroom = isGroom
            try await options.withApp { app in
                let own = try await app.birth()
                let (groom, bride) = isGroom ? (other, own) : (own, other)
                let points = app.screen.points(groom: groom, bride: bride)
                for score in points.scores {
                    try say("\(score.kuta.rawValue) \(score.points) of \(score.kuta.maximum)")
                }
                try say("\(points.total) of 36")
                _ = try await write(app.screen.explain(groom: groom, bride: bride))
            }
        }
    }

    struct Rate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Rate the answers of a function, also offline."
        )
        @Argument(help: "A function, such as 'predict'.") var function: String
        @Flag(inversion: .prefixedNo) var helpful = true
        @Option var comment = ""
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                try app.screen.rate(function, isHelpful: helpful, comment: comment)
            }
        }
    }
}
