import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The cache key: everything that changes an answer changes its key.
@Suite("Keys of cached answers", .bounded)
struct ResultKeyTests {
    private struct Question {
        var name = "f"
        var rules = FunctionRules(cache: .forever)
        var question: Fingerprint?
        var input: JSONValue = ["a": 1, "b": ["c": .number(2.5)]]
        var account: UInt64 = 1
        var session: UInt64 = 2
        var settings: JSONValue = ["birth": "2000-01-01", "theme": "dark"]
        var zone = "Europe/Madrid"
        var now = ManualClock.start

        var key: ResultKey? {
            ResultKey(
                name,
                rules,
                input: input,
                question: question,
                identity: Identity(account: .numbered(account), session: .numbered(session)),
                profile: Account(
                    id: .numbered(account),
                    kind: .guest,
                    timeZone: zone,
                    language: "en",
                    settings: settings,
                    createdAt: now
                ),
                sessionLife: .seconds(86_400),
                now: now
            )
        }
    }

    private func bytes(
        _ cache: ResultCache = .forever,
        _ change: (inout Question) -> Void = { _ in }
    ) -> [UInt8]? {
        var question = Question()
        question.rules.cache = cache
        change(&question)
        return question.key?.bytes
    }

    private static let caches: [ResultCache] = [
        .forever, .duration(.seconds(60)), .untilMidnight, .session, .untilChange(of: "birth"),
    ]

    @Test(arguments: caches)
    func `the keys of two accounts always differ`(cache: ResultCache) {
        #expect(bytes(cache) == bytes(cache))
        #expect(bytes(cache) != bytes(cache) { $0.account = 9 })
    }

    @Test(arguments: caches)
    func `the key includes function, version and lifetime`(cache: ResultCache) {
        #expect(bytes(cache) != bytes(cache) { $0.name = "g" })
        #expect(bytes(cache) != bytes(cache) { $0.rules.version = "2" })
        let keys = Self.caches.compactMap { bytes($0) }
        #expect(Set(keys).count == Self.caches.count)
    }

    @Test(arguments: caches)
    func `the key includes the question, not only the input`(cache: ResultCache) {
        let (one, other) = (Fingerprint("Be short."), Fingerprint("Be long."))
        #expect(bytes(cache) { $0.question = one } != bytes(cache) { $0.question = other })
        #expect(bytes(cache) { $0.question = one } != bytes(cache))
        #expect(bytes(cache) { $0.question = one } == bytes(cache) { $0.question = one })
    }

    @Test(arguments: caches)
    func `the key includes the input in its canonical form`(cache: ResultCache) {
        #expect(bytes(cache) == bytes(cache) { $0.input = ["b": ["c": .number(2.5)], "a": 1] })
        #expect(bytes(cache) != bytes(cache) { $0.input = ["a": 1, "b": ["c": .number(2.50001)]] })
        #expect(bytes(cache) != bytes(cache) { $0.input = ["a": "1", "b": ["c": .number(2.5)]] })
        #expect(bytes(cache) != bytes(cache) { $0.input = ["a": 1] })
    }

    @Test func `a public answer has one key for all accounts, which differs from private keys`() {
        let cache = ResultCache.forever.public(sharing: "a", "b")
        #expect(bytes(cache) == bytes(cache) { ($0.account, $0.session) = (9, 10) })
        #expect(bytes(cache) != bytes())
        var question = Question()
        question.rules.cache = cache
        #expect(question.key?.account == nil)
        question.rules.cache = .forever
        #expect(question.key?.account == .numbered(1))
    }

    @Test func `only the key of an answer for a session includes the session`() {
        for cache in Self.caches {
            let isSame = bytes(cache) == bytes(cache) { $0.session = 3 }
            #expect(isSame == (cache != .session))
        }
    }

    @Test func `a key includes the facts that its answer depends on, and no other settings`() {
        let cache = ResultCache.untilChange(of: "birth", "place")
        #expect(bytes(cache) == bytes(cache) { $0.settings = ["birth": "2000-01-01"] })
        #expect(bytes(cache) != bytes(cache) { $0.settings = ["birth": "2000-01-02"] })
        #expect(
            bytes(cache) != bytes(cache) { $0.settings = ["birth": "2000-01-01", "place": "X"] }
        )
        #expect(bytes(cache) != bytes(cache) { $0.settings = [:] })
    }

    @Test func `a function without a cache has no key`() {
        #expect(bytes(.none) == nil)
    }

    // MARK: - Expiry

    private func expiry(
        _ cache: ResultCache,
        _ now: String,
        in zone: String = "Europe/Madrid"
    ) throws -> String? {
        let moment = try #require(Timestamp(now))
        var question = Question(zone: zone, now: moment)
        question.rules.cache = cache
        return question.key?.expiry(madeAt: moment).description
    }

    @Test(arguments: [
        ("2026-11-21T12:00:00Z", "Europe/Madrid", "2026-11-21T23:00:00.000Z"),
        // A day of 23 hours, and one of 25.
        ("2026-03-28T23:30:00Z", "Europe/Madrid", "2026-03-29T22:00:00.000Z"),
        ("2026-10-24T22:30:00Z", "Europe/Madrid", "2026-10-25T23:00:00.000Z"),
        // A zone with a clock change at midnight.
        ("2026-09-05T12:00:00Z", "America/Santiago", "2026-09-06T04:00:00.000Z"),
        ("2026-11-21T12:00:00Z", "Pacific/Kiritimati", "2026-11-22T10:00:00.000Z"),
        ("2026-11-21T12:00:00Z", "Asia/Kathmandu", "2026-11-21T18:15:00.000Z"),
    ])
    func `an answer until midnight expires at midnight in the account's zone`(
        now: String,
        zone: String,
        end: String
    ) throws {
        #expect(try expiry(.untilMidnight, now, in: zone) == Timestamp(end)?.description)
    }

    @Test func `an answer until midnight has another key the next day`() throws {
        let evening = try #require(Timestamp("2026-11-21T22:59:59Z"))
        let cache = ResultCache.untilMidnight
        let today = bytes(cache) { $0.now = evening }
        #expect(today == bytes(cache) { $0.now = evening + .milliseconds(999) })
        #expect(today != bytes(cache) { $0.now = evening + .seconds(1) })
        // Another zone may have another day at that moment.
        #expect(today != bytes(cache) { ($0.now, $0.zone) = (evening, "Asia/Tokyo") })
    }

    @Test func `a public answer of a day expires when that day has ended everywhere`() throws {
        let cache = ResultCache.untilMidnight.public(sharing: "a", "b")
        let end = try expiry(cache, "2026-11-21T12:00:00Z")
        #expect(end == Timestamp("2026-11-22T12:00:00Z")?.description)
    }

    @Test func `a duration counts from the creation of the answer`() throws {
        var question = Question()
        question.rules.cache = .duration(.seconds(60))
        let key = try #require(question.key)
        #expect(key.expiry(madeAt: question.now + .seconds(30)) == question.now + .seconds(90))
        question.rules.cache = .session
        #expect(question.key?.expiry(madeAt: question.now) == question.now + .seconds(86_400))
        question.rules.cache = .forever
        #expect(question.key?.expiry(madeAt: question.now) == .never)
        question.rules.cache = .untilChange(of: "birth")
        #expect(question.key?.expiry(madeAt: question.now) == .never)
    }
}
