import SanguineModel
import TestSupport
import Testing

@Suite("Switches", .bounded)
struct SwitchesTests {
    private func read(_ json: String) throws -> (switches: Switches, faults: [String]) {
        Switches.reading(try JSONValue(stored: Array(json.utf8)))
    }

    @Test func `switches survive a round trip`() {
        var switches = Switches()
        switches.queries["profile"] = .init(freshness: 0, timeout: 8, optimism: false)
        switches.functions["ask"] = .init(timeout: 120, optimism: true)
        switches.mutations["like"] = .init(optimism: false)

        let (again, faults) = Switches.reading(switches.json)

        #expect(again == switches && faults.isEmpty)
    }

    @Test(arguments: [
        #"{"queries":{"a":{"freshness":-1}}}"#,
        #"{"queries":{"a":{"freshness":2592001}}}"#,
        #"{"queries":{"a":{"freshness":1.5}}}"#,
        #"{"queries":{"a":{"timeout":0}}}"#,
        #"{"queries":{"a":{"timeout":61}}}"#,
        #"{"queries":{"a":{"timeout":"8"}}}"#,
        #"{"queries":{"a":{"optimism":1}}}"#,
        #"{"queries":{"a":{"retries":1}}}"#,
        #"{"functions":{"a":{"timeout":601}}}"#,
        #"{"functions":{"a":{"freshness":1}}}"#,
        #"{"mutations":{"a":{"timeout":1}}}"#,
        #"{"lists":{}}"#,
    ])
    func `a member that is not valid is left out and named`(json: String) throws {
        let (switches, faults) = try read(json)

        #expect(faults.count == 1)
        #expect(switches.queries["a"] ?? .init() == .init())
        #expect(switches.functions["a"] ?? .init() == .init())
        #expect(switches.mutations["a"] ?? .init() == .init())
    }

    @Test(arguments: ["$balance", "$quotas"], [#""timeout":8"#, #""optimism":false"#])
    func `a member that has no effect on the balance or the quotas is left out and named`(
        name: String,
        member: String
    ) throws {
        let (switches, faults) = try read(
            #"{"queries":{"\#(name)":{"freshness":60,\#(member)}}}"#
        )

        #expect(switches.queries == [name: .init(freshness: 60)])
        #expect(faults.count == 1)
        #expect(faults.first?.contains("'queries.\(name)': it cannot be switched") == true)
    }

    @Test func `valid members next to a fault are kept`() throws {
        let (switches, faults) = try read(
            #"{"queries":{"a":{"freshness":"x","timeout":8},"b":{"optimism":false}},"new":1}"#
        )

        #expect(switches.queries == ["a": .init(timeout: 8), "b": .init(optimism: false)])
        #expect(faults.count == 2)
    }

    @Test func `the number of names is limited`() throws {
        let names = (0...WireLimits.switches).map { #""n\#(1_000 + $0)":{"optimism":false}"# }
        let (switches, faults) = try read("{\"mutations\":{\(names.joined(separator: ","))}}")

        #expect(switches.count == WireLimits.switches)
        #expect(faults == ["Set at most 200 switches."])
    }
}
