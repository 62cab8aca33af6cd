import Foundation
import SanguineModel

/// The key of a cached answer, and its lifetime.
///
/// The key covers the function with its version, the audience, the condition of the lifetime (a
/// day, a session, facts of the account), the input in its canonical form, the files of the call by
/// their contents, the function's question: prompt, model, upstreams, and the context in a thread.
/// The audience is always included, so only the account itself can find its entries. An account
/// follows the hash of the others, so that the entries of a merged guest can be moved to its
/// account.
struct ResultKey: Hashable, Sendable {
    /// The SHA-256 of all of these, followed by the account of an answer that is not public.
    let bytes: [UInt8]
    /// The account that may receive the answer; `nil` for a public one.
    let account: Identifier?
    /// The time at which an answer expires, unless its lifetime starts with its creation.
    private let end: Timestamp
    /// The lifetime of an answer; `nil` for one that expires at a fixed time.
    private let life: Duration?

    /// Returns `nil` for a function whose answers are not cached.
    ///
    /// - Parameters:
    ///   - name: The function's name.
    ///   - rules: The rules of the function.
    ///   - input: The part of the input that the function uses.
    ///   - attachments: The files of the call, in order. Default: none.
    ///   - question: A fingerprint of the function's question. Default: none.
    ///   - context: A fingerprint of the context in a thread. Default: none.
    ///   - identity: The caller and its session.
    ///   - profile: The account's profile.
    ///   - sessionLife: The longest remaining life of a session.
    ///   - now: The current time.
    init?(
        _ name: String,
        _ rules: FunctionRules,
        input: JSONValue,
        attachments: [BlobFacts] = [],
        question: Fingerprint? = nil,
        context: Fingerprint? = nil,
        identity: Identity,
        profile: Account,
        sessionLife: Duration,
        now: Timestamp
    ) {
        let isPublic = rules.cache.audience != .account
        let condition: String
        var life: Duration?
        switch rules.cache.lifetime {
        case .none: return nil
        case .duration(let duration):
            condition = ""
            life = duration
            end = .never
        case .midnight:
            let day = CalendarDay(containing: now, in: profile.zone)
            condition = day.description
            end =
                isPublic
                ? Self.endEverywhere(of: day)
                : CalendarDay.nextMidnight(after: now, in: profile.zone)
        case .session:
            condition = identity.session.description
            end = now + sessionLife
        case .forever:
            condition = ""
            end = .never
        case .facts:
            let facts = JSONValue.object(rules.cache.facts(of: profile))
            condition = String(decoding: facts.canonical, as: UTF8.self)
            end = .never
        }
        self.life = life
        account = isPublic ? nil : identity.account
        bytes =
            Fingerprint(
                name,
                rules.version,
                isPublic ? "public" : "account",
                rules.cache.name,
                condition,
                String(decoding: input.canonical, as: UTF8.self),
                attachments.map(\.id).joined(separator: " "),
                // Without a context, the key is that of earlier versions.
                Self.text(question) + (context.map { " " + Self.text($0) } ?? "")
            ).bytes + (account?.bytes ?? [])
    }

    private static func text(_ fingerprint: Fingerprint?) -> String {
        fingerprint.map { Data($0.bytes).base64EncodedString() } ?? ""
    }

    /// Returns the time at which an answer that was produced at a given moment expires.
    func expiry(madeAt moment: Timestamp) -> Timestamp { life.map { moment + $0 } ?? end }

    /// Keys are equal by their bytes, because the expiry of a question changes with time.
    static func == (lhs: ResultKey, rhs: ResultKey) -> Bool { lhs.bytes == rhs.bytes }

    func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// Returns the moment at which a day has ended in every time zone.
    private static func endEverywhere(of day: CalendarDay) -> Timestamp {
        day.next.start(in: TimeZone(secondsFromGMT: -12 * 3_600) ?? .gmt)
    }
}

extension ResultCache {
    /// Returns the account's settings that an answer depends on; `null` for a setting that is not
    /// set.
    func facts(of account: Account) -> [String: JSONValue] {
        guard case .facts(let names) = lifetime else { return [:] }
        let facts = names.map { ($0, account.settings[$0] ?? .null) }
        return Dictionary(facts) { first, _ in first }
    }
}

extension Timestamp {
    /// The latest possible time.
    static let never = Timestamp(millisecondsSince1970: .max)
}
