@echo off
REM What the scripts beside this one need: they call it after setlocal, and end when it fails.
REM
REM Sets ZOOCFGDIR, ZOOCFG, ZOO_LOG_DIR and ZEBU, unless the caller has set them.
REM ZEBU holds the words that start the program: zebu.exe beside this script or in PATH, otherwise zebu in the
REM Windows Subsystem for Linux. There is no zebu.exe to download; the program is built for Linux.
REM The program reads the -D words in SERVER_JVMFLAGS, CLIENT_JVMFLAGS and JVMFLAGS.

if not defined ZOOCFGDIR set "ZOOCFGDIR=%~dp0..\conf"
if not defined ZOOCFG set "ZOOCFG=%ZOOCFGDIR%\zoo.cfg"
if not defined ZOO_LOG_DIR set "ZOO_LOG_DIR=%~dp0..\logs"

if defined ZEBU exit /b 0
if exist "%~dp0zebu.exe" set ZEBU="%~dp0zebu.exe"
if defined ZEBU exit /b 0
where zebu.exe >nul 2>nul
if not errorlevel 1 set ZEBU=zebu.exe
if defined ZEBU exit /b 0
where wsl.exe >nul 2>nul
if errorlevel 1 (
    echo Error: neither zebu.exe nor the Windows Subsystem for Linux could be found 1>&2
    echo hint: set ZEBU to the program, or install zebu in a Linux distribution of the subsystem 1>&2
    exit /b 1
)
set ZEBU=wsl.exe --exec zebu
set "WSLENV=%WSLENV%:SERVER_JVMFLAGS:CLIENT_JVMFLAGS:JVMFLAGS"
REM Linux has another path for the configuration.
for /f "usebackq delims=" %%p in (`wsl.exe --exec wslpath -a "%ZOOCFG%"`) do set "ZOOCFG=%%p"
exit /b 0
