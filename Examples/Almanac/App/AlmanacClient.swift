public import AlmanacModel
public import AlmanacSky
public import Foundation
public import Sanguine

extension SanguineClient.Configuration {
    /// The configuration of the app and its tests.
    public static func almanac(server: URL?, folder: URL) -> Self {
        var configuration = Self(server: server)
        configuration.folder = folder
        configuration.register(SendFeedback.self, Match.self)
        configuration.queries = [
            QueryDeclaration(name: ComputeAstroData.name, policy: .astroData)
                .calling(ComputeAstroData.self),
            QueryDeclaration(name: PredictToday.name, policy: .prediction)
                .calling(PredictToday.self),
        ]
        configuration.functions = [
            UseTools.self, ComputeAstroData.self, PredictToday.self, Predict.self,
            ExplainMatch.self, DeliverFeedback.self,
        ]
        return configuration
    }
}

/// The app's own settings in the account: the same on all devices of the user.
public struct AlmanacSettings: AppSettings {
    /// The user's own birth, or nothing until the user has entered it.
    ///
    /// A list is changed as a whole, so changes of two devices never mix the members of two births.
    private var births: [BirthData] = []

    private enum CodingKeys: String, CodingKey { case births }

    /// The name of the member with the user's birth, on which cached values depend.
    static let birthMember = CodingKeys.births.rawValue

    public init() {}

    /// The user's own birth; `nil` until the user has entered it.
    public var birth: BirthData? {
        get { births.first }
        set { births = newValue.map { [$0] } ?? [] }
    }
}

extension RecordQuery where Value == [Match] {
    /// The compared couples, the newest first.
    static var matches: Self {
        RecordQuery(reading: Match.collection) { records in
            // Ids are in the order of time.
            records.records(Match.self).reversed()
        }
    }
}

extension ValueQuery where Value == AstroData {
    /// The chart, periods and transits of a birth, kept until the birth data changes.
    public static func astroData(of birth: BirthData, in year: Int) -> Self {
        ValueQuery(ComputeAstroData.name, birth.key, year, policy: .astroData) { request in
            try await request.answer(to: ComputeAstroData(of: birth, in: year))
        }
    }
}

extension ValueQuery where Value == String {
    /// The prediction of the user's day, kept until midnight.
    public static func prediction(for birth: BirthData, on day: CalendarDay) -> Self {
        ValueQuery(PredictToday.name, birth.key, "\(day)", policy: .prediction) { request in
            try await request.answer(to: PredictToday(for: birth, on: day))
        }
    }
}

extension Policy {
    /// Kept for a hundred years, or until the birth data changes.
    fileprivate static let astroData = forever.stored(.onDisk).kept(for: .hours(24 * 36_525))
        .depends(onSettings: AlmanacSettings.birthMember)

    /// Kept until midnight, or until the birth data changes.
    fileprivate static let prediction = untilMidnight.stored(.onDisk)
        .depends(onSettings: AlmanacSettings.birthMember)
}

extension QueryRequest {
    /// Calls a free function, which a query may repeat.
    fileprivate func answer<Call: FunctionCall>(to call: Call) async throws -> Call.Output {
        let key = ["Idempotency-Key": UUID().uuidString]
        let path = "/v1/functions/\(Call.name)"
        let result: FunctionResult<Call.Output> = try await post(
            path,
            ["input": call.input],
            headers: key
        )
        return result.output
    }
}
