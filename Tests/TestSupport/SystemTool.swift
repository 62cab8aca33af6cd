import Foundation
package import Testing

/// A program of the system that some tests run.
package struct SystemTool: Sendable {
    package let name: String
    /// The Debian package that has it; `Scripts/install-missing.sh` installs it.
    package let package: String

    package init(_ name: String, in package: String) { (self.name, self.package) = (name, package) }

    package static let ffmpeg = SystemTool("ffmpeg", in: "ffmpeg")
    package static let ffprobe = SystemTool("ffprobe", in: "ffmpeg")
    package static let heifEnc = SystemTool("heif-enc", in: "libheif-examples")
    package static let heifConvert = SystemTool("heif-convert", in: "libheif-examples")
    package static let exiftool = SystemTool("exiftool", in: "libimage-exiftool-perl")
    package static let vips = SystemTool("vips", in: "libvips-tools")

    /// All tools that tests name.
    package static let all = [ffmpeg, ffprobe, heifEnc, heifConvert, exiftool, vips]

    /// Whether one of the folders of `path` has the program.
    func isInstalled(in path: String) -> Bool {
        path.split(separator: ":").contains { folder in
            FileManager.default.isExecutableFile(atPath: "\(folder)/\(name)")
        }
    }
}

/// A program that a test needs is not installed, and `REQUIRE_TOOLS` is set.
package struct MissingTool: Error, Equatable, CustomStringConvertible {
    package let description: String
}

/// Decides whether a test can run whose programs may be missing.
package struct ToolCheck: Sendable {
    private let missing: [SystemTool]
    private let isRequired: Bool

    package init(
        _ tools: [SystemTool],
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        missing = tools.filter { !$0.isInstalled(in: environment["PATH"] ?? "") }
        isRequired = environment["REQUIRE_TOOLS"] == "1"
    }

    /// Which packages to install; empty if no tool is missing.
    package var advice: String {
        guard !missing.isEmpty else { return "" }
        let names = missing.map(\.name).joined(separator: ", ")
        let packages = Set(missing.map(\.package)).sorted().joined(separator: " ")
        return "Not installed: \(names). On Debian, run: apt-get install \(packages)"
    }

    /// Whether the test can run.
    ///
    /// - Throws: ``MissingTool`` if a program is missing and `REQUIRE_TOOLS` is 1.
    package func mayRun() throws(MissingTool) -> Bool {
        guard !missing.isEmpty else { return true }
        if isRequired { throw MissingTool(description: advice) }
        return false
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with a message, if one of the programs is missing.
    ///
    /// With `REQUIRE_TOOLS=1` in the environment, as `make check` sets it, the test fails instead.
    package static func requires(_ tools: SystemTool...) -> Self {
        let check = ToolCheck(tools)
        let advice = Comment(rawValue: check.advice)
        return .enabled(advice) { try check.mayRun() }  // tidy: allow skipped-test: this is it.
    }
}
