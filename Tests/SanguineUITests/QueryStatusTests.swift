import Foundation
import Sanguine
import SanguineTesting
import SanguineUI
import TestSupport
import Testing

/// The state that is shown with the content, or instead of it.
@MainActor
@Suite("Query status", .bounded)
struct QueryStatusTests {
    nonisolated static let offline = SanguineError.transport(.offline("no route"))

    @Test func `the phases of a value correspond to stages`() async throws {
        let network = ScriptedTransport()
        network.script(.fail(.offline("no route")), .json(Profile(name: "Ada")), .status(503))
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        network.hold()
        let model = client.model(.profile("1"))
        #expect(model.status == QueryStatus(.loading))
        network.release()
        try await eventually("the first fetch has failed") { model.phase == .failed }
        #expect(model.status == QueryStatus(.failed, error: Self.offline))
        #expect(model.content == nil)

        await model.retry()
        #expect(model.status == QueryStatus(.content, asOf: model.asOf))
        #expect(model.content?.name == "Ada")

        await model.retry()
        #expect(model.status.stage == .content)
        #expect(model.status.isOutdated)
        #expect(model.content?.name == "Ada")
    }

    @Test func `a list has content once it was loaded, even without rows`() async throws {
        let network = ScriptedTransport()
        network.script(.fail(.offline("no route")), .json(EmptyPage()))
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        let model = client.model(.feed("new"))
        try await eventually("the first load has failed") { model.phase == .failed }
        #expect(model.content == nil)
        #expect(model.status == QueryStatus(.failed, error: Self.offline))
        await model.retry()

        #expect(model.content == [])
        #expect(model.status == QueryStatus(.content, asOf: model.asOf))
    }

    @Test func `a range has content once a part of it is known`() throws {
        let client = SanguineClient.preview(network: .silent) { shown in
            shown.set([1: "one"], for: .words, in: 1...2)
        }
        let known = client.model(.words, in: 1...3)
        let unknown = client.model(.words, in: 5...6)

        #expect(known.status.stage == .content)
        #expect(known.content?[1] == "one")
        #expect(unknown.status == QueryStatus(.loading))
        #expect(unknown.content == nil)
    }

    @Test(arguments: [
        (QueryStatus(.content, error: offline), true),
        (QueryStatus(.content, error: offline, isRefreshing: true), false),
        (QueryStatus(.content, error: .cancelled), false),
        (QueryStatus(.content), false),
        (QueryStatus(.failed, error: offline), false),
    ])
    func `content is outdated if it could not be refreshed`(status: QueryStatus, isOutdated: Bool) {
        #expect(status.isOutdated == isOutdated)
    }

    @Test(arguments: [
        (QueryStatus(.failed, error: offline), true),
        (QueryStatus(.failed, error: .problem(Problem(.internalFault, ""))), true),
        (QueryStatus(.failed, error: .problem(Problem(.rateLimited, ""))), true),
        (QueryStatus(.failed, error: .problem(Problem(.notFound, ""))), false),
        (QueryStatus(.failed, error: .problem(Problem(.unauthenticated, ""))), false),
        (QueryStatus(.failed, error: .decoding("Profile")), false),
        (QueryStatus(.failed, error: .userChanged), true),
        (QueryStatus(.empty), true),
        (QueryStatus(.loading), false),
    ])
    func `a retry is offered if it may help`(status: QueryStatus, canRetry: Bool) {
        #expect(status.canRetry == canRetry)
    }

    @Test func `an age is never negative`() {
        let status = QueryStatus(.content, asOf: Timestamp(millisecondsSince1970: 5_000))

        #expect(status.age(at: Timestamp(millisecondsSince1970: 8_000)) == .seconds(3))
        #expect(status.age(at: Timestamp(millisecondsSince1970: 4_000)) == .zero)
        #expect(QueryStatus(.content).age(at: Timestamp(millisecondsSince1970: 0)) == nil)
    }
}

/// A page of a list without rows.
private struct EmptyPage: Encodable {
    var items: [Post] = []
    var hasMore = false
}

/// The strings of the default style.
@Suite("Query texts", .bounded)
struct QueryTextsTests {
    private let texts = QueryTexts()

    @Test(arguments: [
        (Duration.seconds(0), "As of just now, offline"),
        (.seconds(59), "As of just now, offline"),
        (.seconds(60), "As of 1 minute ago, offline"),
        (.seconds(59 * 60 + 59), "As of 59 minutes ago, offline"),
        (.seconds(3_600), "As of 1 hour ago, offline"),
        (.seconds(86_399), "As of 23 hours ago, offline"),
        (.seconds(3 * 86_400), "As of 3 days ago, offline"),
    ])
    func `a note contains the age in its largest unit`(age: Duration, note: String) {
        #expect(texts.note(QueryStatus(.content, error: QueryStatusTests.offline), age) == note)
    }

    @Test func `a note contains the reason, even without an age`() {
        let failed = QueryStatus(.content, error: .problem(Problem(.internalFault, "")))
        let late = QueryStatus(.content, error: .timedOut(after: QueryStatusTests.offline))

        #expect(texts.note(failed, .seconds(60)) == "As of 1 minute ago, could not be updated")
        #expect(texts.note(failed, nil) == "Could not be updated")
        #expect(texts.note(late, nil) == "Offline")
    }

    @Test(arguments: [
        (QueryStatusTests.offline, "Offline", "Check the connection and try again."),
        (
            .problem(Problem(.notFound, "")), "No Longer Available",
            "This does not exist or was removed."
        ),
        (.problem(Problem(.unauthenticated, "")), "Sign-In Needed", "Sign in to see this."),
        (.decoding("x"), "Not Available", "Something is wrong with the app or the server."),
        (.invalidDeclaration("Do this."), "Not Available", "Do this."),
    ])
    func `users see error messages, and developers see invalid declarations`(
        error: SanguineError,
        title: String,
        message: String
    ) {
        #expect(texts.title(QueryStatus(.failed, error: error)) == title)
        #expect(texts.message(error) == message)
    }

    @Test func `missing content without an error has its own title`() {
        #expect(texts.title(QueryStatus(.empty)) == "Nothing Here Yet")
    }
}
