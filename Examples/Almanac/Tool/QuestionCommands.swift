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
            abstract: "Ask a question in a thread, and print the answer as it arrives."
        )
        @Argument var question: String
        @Option(help: "The part of life that it concerns.") var area = Area.life
        @Option(help: "The id of a thread. Default: a new one.", transform: threadID)
        var thread: RecordID?
        @OptionGroup var options: AppOptions

        func run() async throws {
            let (question, area, thread) = (question, area, thread ?? .new())
            try await options.withApp { app in
                _ = try await app.birth()
                guard let asked = try app.screen.ask(question, in: area, thread: thread)
                else { return }
                _ = try await write(app.client.answer(to: Predict.self, key: asked.key))
                try say("thread \(asked.thread.id)")
            }
        }
    }

    struct CompareBirths: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "match",
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
                let asked = try app.screen.explain(groom: groom, bride: bride)
                _ = try await write(app.client.answer(to: ExplainMatch.self, key: asked.key))
                try say("thread \(asked.thread.id)")
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
