import Foundation
import Testing

/// Mounts that only one process sees, for tests of disks.
enum Mounts {
    /// Skips a test if this process cannot mount, which requires root on Linux.
    ///
    /// No package grants that, so the test is skipped with `REQUIRE_TOOLS=1`, too.
    static let areNeeded: ConditionTrait = .enabled(  // tidy: allow skipped-test: needs root.
        if: Shell.succeeds("unshare -m mount -t tmpfs tmpfs /mnt 2> /dev/null"),
        "Run as root on Linux: this test mounts its own disk."
    )

    /// Returns a shell script that makes the folder read-only.
    static func readOnly(_ folder: URL) -> String {
        script(
            "mount --bind '\(folder.path)' '\(folder.path)' && "
                + "mount -o remount,ro,bind '\(folder.path)'"
        )
    }

    /// Returns a shell script that makes the folder a disk of the given size.
    static func disk(_ folder: URL, mebibytes: Int) -> String {
        script("mount -t tmpfs -o size=\(mebibytes)m,mode=0700 tmpfs '\(folder.path)'")
    }

    private static func script(_ mount: String) -> String {
        "exec unshare -m sh -c \"\(mount) && exec \\\"\\$@\\\"\" sh \"$@\""
    }
}

/// Short commands of the system.
enum Shell {
    /// Runs the command for at most 10 seconds, and returns whether it succeeded.
    static func succeeds(_ command: String) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", command]
        let end = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in end.signal() }
        guard (try? process.run()) != nil else { return false }
        return end.wait(timeout: .now() + 10) == .success && process.terminationStatus == 0
    }
}
