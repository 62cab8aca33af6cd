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
        let text = try String(contentsOf: script, encoding: .utf8)
        let packages = Set(text.split(separator: "\n").map { $0.prefix { $0 != " " && $0 != "|" } })
        for tool in SystemTool.all {
            let isNamed =
                tool.folder.map { text.contains($0.prefix { $0 != "/" }) }
                ?? packages.contains(tool.package[...])
            #expect(isNamed, "\(tool.name)")
        }
    }

    @Test func `a program in a folder of the repository is installed by the script`() {
        let tool = SystemTool("no-such-program", in: "no-such-package", folder: ".build-none/bin")
        let check = check([tool, Self.none], required: nil)
        #expect(
            check.advice
                == "Not installed: no-such-program, no-such-program. "
                + "Run: Scripts/install-missing.sh tests"
        )
    }

    @Test func `a test without its program fails if all programs are required`() {
        let check = check([Self.shell, Self.none], required: "1")
        let error = #expect(throws: MissingTool.self) { try check.mayRun() }
        #expect(error?.description == check.advice)
    }
}
