import AlmanacModel
import AlmanacSky
import SanguineServer

/// The prompts, which contain what the server has computed.
enum Prompts {
    private static let manner = """
        You are an astrologer of the Vedic tradition who writes for entertainment, kindly, and \
        never about illness or death. Use only the positions that you are given. Write 120 words \
        at most.
        """

    static func today(_ input: PredictToday.Input) throws -> Prompt {
        let facts = try facts(of: input.birth, on: input.day)
        return Prompt(system: manner, "\(facts)\nWrite the prediction for \(input.day).")
    }

    static func question(_ input: Predict.Input) throws -> Prompt {
        let question = input.question
        guard !question.isEmpty, question.utf8.count <= 1 << 10 else {
            throw Refusal(.invalidContent, "Ask a question of at most 1 KiB.")
        }
        let facts = try facts(of: input.birth, on: input.day)
        let area = input.area.rawValue
        return Prompt(system: manner, "\(facts)\nAnswer this question about \(area): \(question)")
    }

    static func match(_ input: ExplainMatch.Input) -> Prompt {
        let match = Compatibility(groom: input.groom, bride: input.bride)
        let scores = match.scores
            .map { "\($0.kuta.rawValue) \($0.points) of \($0.kuta.maximum)" }
            .joined(separator: ", ")
        return Prompt(
            system: manner,
            "Ashtakoota: \(match.total) of 36 points (\(scores)). Explain how the two match."
        )
    }

    /// Returns the sentences about a birth and the sky of a day.
    private static func facts(of birth: BirthData, on day: CalendarDay) throws -> String {
        let chart = try refusing { () throws(SkyError) in try Chart(of: birth) }
        let noon = Moment(julianDay: 2_440_588 + Double(day.daysSince1970))
        let moon = Sign(
            containing: Sky.longitude(of: .moon, at: noon) - Zodiac.sidereal.origin(at: noon)
        )
        let positions = chart.positions
            .map { "\($0.body.rawValue) in \($0.sign.rawValue), house \($0.house)" }
            .joined(separator: "; ")
        let periods = Vimshottari.periods(of: birth)
        let period = periods.first { $0.contains(noon) }
        let part = period?.parts.last { $0.start <= noon }
        let lords = [period, part].compactMap { $0?.lord.rawValue }.joined(separator: " and ")
        return """
            Sidereal chart: \(chart.rising.rawValue) rises; \(positions). \
            Running periods: \(lords). On \(day) the Moon is in \(moon.rawValue).
            """
    }

    /// Turns a refusal of the sky into one for the caller.
    static func refusing<Value>(_ body: () throws(SkyError) -> Value) throws -> Value {
        do throws(SkyError) {
            return try body()
        } catch {
            throw Refusal(.invalidContent, error.description)
        }
    }
}
