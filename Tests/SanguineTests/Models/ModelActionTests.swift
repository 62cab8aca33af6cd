import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Actions of a view on its models.
@Suite("Actions of models", .bounded)
struct ModelActionTests {
    private struct Reminders: AppSettings {
        var isDaily = false
    }

    private let fixture = AccountFixture()

    @Test @MainActor func `a model of records fetches the changes of another device`()
        async throws
    {
        let client = try fixture.device().launch()
        defer { client.close() }
        let counters = client.model(.all(Counter.self))
        try await counters.refresh()
        #expect(counters.value.isEmpty)
        fixture.authority.set(Counter(id: .of("a"), count: 1))
        try await counters.refresh()
        try await eventually("the model shows the counter") { counters.value.count == 1 }
    }

    @Test @MainActor func `a model of the account changes the app's own settings`() throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        let account = client.account.model
        try account.update(Reminders.self) { $0.isDaily = true }
        #expect(account.settings.decoded(as: Reminders.self).isDaily)
    }

    @Test func `an open call names the files that are attached to it`() throws {
        let body = FunctionRequest(input: JSONValue.object([:]), attachments: ["a", "b"])
        var call = OpenCall(
            key: "k",
            function: "f",
            begunAt: Timestamp(millisecondsSince1970: 0),
            state: .running,
            isQueued: false,
            request: try JSONEncoder().encode(body)
        )
        #expect(call.attachments == ["a", "b"])
        call.request = nil
        #expect(call.attachments.isEmpty)
    }
}
