import Foundation
import TestSupport
import Testing

/// Tests that need programs which a machine may lack.
@Suite("Programs that tests need", .bounded)
struct SystemToolTests {
    private static let none = SystemTool("no-such-program", in: "no-such-package")
    private static let shell = SystemTool("sh", in: "dash")

    private func check(_ tools: [SystemTool], required: String?) -> ToolCheck {
        var environment = ["PATH": "/nowhere:/bin:/usr/bin"]
        environment["REQUIRE_TOOLS"] = required
        return ToolCheck(tools, environment: environment)
    }

    @Test(arguments: [nil, "", "0", "1"])
    func `a test with its programs installed runs`(required: String?) throws {
        let check = check([Self.shell], required: required)
        #expect(try check.mayRun())
        #expect(check.advice.isEmpty)
    }

    @Test(arguments: [nil, "", "0"])
    func `a test without its program is skipped and names the package to install`(
        required: String?
    ) throws {
        let check = check([Self.shell, Self.none], required: required)
        #expect(try !check.mayRun())
        #expect(
            check.advice
                == "Not installed: no-such-program. On Debian, run: apt-get install no-such-package"
        )
    }

    @Test func `the setup script installs every program that tests need`()
        throws
    {
        let root = URL(filePath: #filePath).appending(path: "../../../..").standardized
        let script = root.appending(path: "Scripts/install-missing.sh")
        let lines = try String(contentsOf: script, encoding: .utf8).split(separator: "\n")
        let packages = Set(lines.map { String($0.prefix { $0 != " " && $0 != "|" }) })
        #expect(Set(SystemTool.all.map(\.package)).subtracting(packages).isEmpty)
    }

    @Test func `a test without its program fails if all programs are required`() {
        let check = check([Self.shell, Self.none], required: "1")
        let error = #expect(throws: MissingTool.self) { try check.mayRun() }
        #expect(error?.description == check.advice)
    }
}
