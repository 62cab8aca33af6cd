import Observation

/// Returns after a property that `read` touches has changed, or when the test's time is up.
@MainActor
func change(of read: () -> Void) async {
    let (changes, change) = AsyncStream.makeStream(of: Never.self)
    withObservationTracking(read) { change.finish() }
    for await _ in changes {}
    // Told before the change: let it happen.
    await Task.yield()
}
