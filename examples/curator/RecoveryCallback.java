import java.util.List;

/** Receives the tasks that an earlier master has not assigned. */
interface RecoveryCallback {
    /** The tasks are known. */
    int OK = 0;
    /** The tasks could not be read, so there is no list. */
    int FAILED = -1;

    /**
     * Called once, on the thread that read the tasks.
     *
     * @param rc {@link #OK} or {@link #FAILED}
     * @param tasks names of the waiting tasks below /tasks, oldest first; empty after a failure
     */
    void recoveryComplete(int rc, List<String> tasks);
}
