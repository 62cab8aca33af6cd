import AlmanacApp
import AlmanacModel
import AlmanacSky
import ArgumentParser
import ExampleTerminal
import Foundation
import Sanguine

extension AlmanacTool {
    struct Birth: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set your birth, on all of your devices."
        )
        @OptionGroup var data: BirthOptions
        @OptionGroup var options: AppOptions

        func run() async throws {
            let birth = try data.birth()
            try await options.withApp { app in
                _ = try? await app.client.account.value()
                try app.screen.setBirth(birth)
                try say("born \(birth.moment), key \(birth.key.prefix(16))")
            }
        }
    }

    struct ShowChart: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "chart",
            abstract: "Show your chart, also offline."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                let chart = try await app.data().chart
                try say("\(chart.rising.rawValue) rises at \(degrees(chart.ascendant))")
                for position in chart.positions {
                    try say(
                        """
                        \(position.body.rawValue) \(degrees(position.longitude)) \
                        \(position.sign.rawValue), house \(position.house), \
                        \(position.nakshatra.rawValue) \(position.quarter)\
                        \(position.isRetrograde ? ", retrograde" : "")
                        """
                    )
                }
            }
        }
    }

    struct Periods: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the periods of your life.")
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                for period in try await app.data().periods {
                    try say("\(period.lord.rawValue) \(day(period.start)) to \(day(period.end))")
                }
            }
        }
    }

    struct Transits: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the entries of slow planets into signs this year."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                for transit in try await app.data().transits {
                    let turn = transit.isRetrograde ? ", backward" : ""
                    try say(
                        "\(transit.moment) \(transit.body.rawValue) enters "
                            + "\(transit.sign.rawValue)\(turn)"
                    )
                }
            }
        }
    }

    struct ShowSky: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sky",
            abstract: "Show the positions of this moment."
        )
        @Option var zodiac = Zodiac.sidereal
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in
                let report = try await app.screen.sky(at: Moment(Date()), in: zodiac)
                try say("\(report.moment), the Moon's phase is \(degrees(report.phase))")
                for position in report.positions {
                    try say(
                        "\(position.body.rawValue) \(degrees(position.longitude)) "
                            + position.sign.rawValue
                    )
                }
            }
        }
    }

    struct Matrix: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show where the app's values are stored, and how long."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { app in try say("\(app.client.matrix())") }
        }
    }
}

/// Returns an angle with two decimals, in no locale's form.
private func degrees(_ angle: Double) -> String {
    let hundredths = Int((angle * 100).rounded())
    let fraction = hundredths % 100
    return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction)°"
}

/// Returns the day of a moment in UTC.
private func day(_ moment: Moment) -> Substring { moment.description.prefix(10) }
