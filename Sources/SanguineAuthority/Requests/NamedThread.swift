package import Foundation

extension Thread {
    /// Creates a thread whose name the system's tools also show.
    ///
    /// On Linux, Foundation forgets a name that is set before the start, and the thread has the
    /// name of the one that started it.
    ///
    /// - Parameters:
    ///   - name: The name, of which Linux shows 15 bytes.
    ///   - body: The thread's work.
    package convenience init(named name: String, _ body: @escaping @Sendable () -> Void) {
        self.init {
            Thread.current.name = name
            body()
        }
        self.name = name
    }
}
