import Foundation
import Testing

/// Requirements on the workflows of continuous integration.
@Suite("Workflows", .timeLimit(.minutes(15)))
struct WorkflowTests {
    private func workflows() throws -> [SourceFile] {
        try Repository.files().filter { $0.path.hasPrefix(".github/workflows/") }
    }

    @Test func `workflows use pinned actions, have timeouts and get no secrets`() throws {
        let workflows = try workflows()
        try #require(!workflows.isEmpty)

        for workflow in workflows {
            #expect(try WorkflowFaults(workflow).all == [], "\(workflow.path)")
        }
    }

    @Test(arguments: [
        ("      - uses: actions/checkout@v5", "action"),
        ("    container: swift:latest", "image"),
        ("    container: swift", "image"),
        ("      TOKEN: ${{ secrets.TOKEN }}", "secret"),
        ("on: pull_request_target", "secret"),
    ])
    func `each fault is found`(line: String, fault: String) throws {
        let sound = """
            permissions:
              contents: read
            jobs:
              a:
                runs-on: macos-26
                timeout-minutes: 5
            """
        #expect(try WorkflowFaults(SourceFile("a.yml", sound)).all == [])
        #expect(try WorkflowFaults(SourceFile("a.yml", sound + "\n" + line)).all == [fault])
    }

    @Test func `a job without a timeout and a token that can write are found`() throws {
        let workflow = SourceFile("a.yml", "jobs:\n  a:\n    runs-on: macos-26\n")

        #expect(try WorkflowFaults(workflow).all == ["bound", "permissions"])
    }
}

/// The faults of a workflow.
private struct WorkflowFaults {
    let all: [String]

    init(_ file: SourceFile) throws {
        func count(_ pattern: String) throws -> Int {
            try file.lines(matching: pattern, in: \.code).count
        }
        var faults: [String] = []
        let actions = try count(#"^\s*-?\s*uses:"#)
        if try count(#"^\s*-?\s*uses: [\w/.-]+@[0-9a-f]{40}\b"#) != actions {
            faults.append("action")
        }
        if try count(#"^\s*(?:runs-on|container): (?!\S*\d)|:.*\blatest$"#) > 0 {
            faults.append("image")
        }
        if try count(#"\bsecrets\.|\bpull_request_target\b"#) > 0 { faults.append("secret") }
        if try count(#"^    timeout-minutes: \d+$"#) != count(#"^    runs-on:"#) {
            faults.append("bound")
        }
        if try count(#"^permissions:$"#) != 1 || count(#"^\s+[\w-]+: write$"#) > 0 {
            faults.append("permissions")
        }
        all = faults
    }
}
