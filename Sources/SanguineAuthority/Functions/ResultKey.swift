import Foundation
import SanguineModel

/// What a kept answer is an answer to, and how long it counts.
///
/// The key is made of the function with its version, the audience, what the lifetime depends on
/// (a day, a session, facts of the account), the input in its canonical form, and the files of the
/// call by their contents. The audience is in
/// it by construction: an account's entry can be found by that account alone.
struct ResultKey: Hashable, Sendable {
    /// SHA-256 of all of it.
    let bytes: [UInt8]
    /// Whose answer it is; `nil` for everybody's.
    let account: Identifier?
    /// From when on an answer that is made now is not given any more.
    let expiresAt: Timestamp

    /// Returns `nil` for a function whose answers are not kept.
    ///
    /// - Parameters:
    ///   - name: The function's name.
    ///   - rules: What the function declares.
    ///   - input: The part of the input that the function heeds.
    ///   - attachments: The files of the call, in their order. Default: none.
    ///   - identity: Who asks, and in which session.
    ///   - profile: What is known of the account.
    ///   - sessionLife: How long a session lasts at most from now on.
    ///   - now: The present.
    init?(
        _ name: String,
        _ rules: FunctionRules,
        input: JSONValue,
        attachments: [BlobFacts] = [],
        identity: Identity,
        profile: Account,
        sessionLife: Duration,
        now: Timestamp
    ) {
        let isPublic = rules.cache.audience != .account
        let condition: String
        switch rules.cache.lifetime {
        case .none: return nil
        case .duration(let duration):
            condition = ""
            expiresAt = now + duration
        case .midnight:
            let day = CalendarDay(containing: now, in: profile.zone)
            condition = day.description
            expiresAt =
                isPublic
                ? Self.endEverywhere(of: day)
                : CalendarDay.nextMidnight(after: now, in: profile.zone)
        case .session:
            condition = identity.session.description
            expiresAt = now + sessionLife
        case .forever:
            condition = ""
            expiresAt = .never
        case .facts(let names):
            let facts = names.map { ($0, profile.settings[$0] ?? .null) }
            let values = Dictionary(facts) { first, _ in first }
            condition = String(decoding: JSONValue.object(values).canonical, as: UTF8.self)
            expiresAt = .never
        }
        account = isPublic ? nil : identity.account
        bytes =
            Fingerprint(
                name,
                rules.version,
                account?.description ?? "public",
                rules.cache.name,
                condition,
                String(decoding: input.canonical, as: UTF8.self),
                attachments.map(\.id).joined(separator: " ")
            ).bytes
    }

    /// Keys are equal by what they name: the same question has another expiry a moment later.
    static func == (lhs: ResultKey, rhs: ResultKey) -> Bool { lhs.bytes == rhs.bytes }

    func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// The moment at which a day has ended in every time zone.
    private static func endEverywhere(of day: CalendarDay) -> Timestamp {
        day.next.start(in: TimeZone(secondsFromGMT: -12 * 3_600) ?? .gmt)
    }
}

extension Timestamp {
    /// After everything.
    static let never = Timestamp(millisecondsSince1970: .max)
}
